// How an example becomes network input, as determined by the training examples. It is part of the model: every other
// split, `mlx predict` and the server prepare examples with it, so that a network gets the same bits everywhere.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "data/images/normalize.h"
#include "data/images/photo.h"
#include "data/rows.h"
#include "data/tokenizer.h"

namespace mlx::data {

// Each kind of data uses its own part.
struct Preprocessing {
  std::int64_t height = 0, width = 0, channels = 0;  // of an input image
  Normalization normalization;
  std::optional<RowSchema> rows{};
  std::shared_ptr<const Tokenizer> tokenizer{};  // has as many tokens as the logits are wide
  std::optional<Fit> fit{};                      // how photos get the size; nullopt: they must have it

  bool takes_sounds() const { return fit == Fit::kSpectrogram; }
  PhotoForm photo_form() const { return {height, width, channels, fit.value_or(Fit::kSqueeze)}; }
};

// kUsage for a sound where the model takes pictures, or the other way around; or if the model does not say how photos
// get its size, and the photo has another size or number of channels.
void check_photo(ByteView file, const std::string& name, const Preprocessing& preprocessing);

}  // namespace mlx::data
