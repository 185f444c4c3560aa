// How an example becomes network input, as determined by the training examples. It is part of the model: every other
// split, `mlx predict` and the server prepare examples with it, so that a network gets the same bits everywhere.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "data/images/normalize.h"
#include "data/rows.h"
#include "data/tokenizer.h"

namespace mlx::data {

// Each kind of data uses its own part.
struct Preprocessing {
  std::int64_t height = 0, width = 0, channels = 0;  // of an input image
  Normalization normalization;
  std::optional<RowSchema> rows{};
  std::shared_ptr<const Tokenizer> tokenizer{};  // has as many tokens as the logits are wide
};

}  // namespace mlx::data
