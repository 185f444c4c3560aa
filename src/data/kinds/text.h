// Text as examples: one long sequence of tokens, cut into windows. Used by training and evaluation of language models.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "data/tokenizer.h"
#include "store/pack/store.h"

namespace mlx::data {

struct Text {
  std::vector<std::int32_t> tokens;
  std::int64_t unknown = 0;                    // of them, in no vocabulary
  std::shared_ptr<const Tokenizer> tokenizer;  // what they were made with
};

// Reads the concatenated files. With `tokenizer`, unknown characters become Tokenizer::kUnknown; otherwise a tokenizer
// of this `kind` ("bytes", "chars") is made from the text. Throws kUsage if "chars" meets invalid UTF-8, kCorrupt for
// damaged gzip.
Text read_text(const store::Store& store, const std::vector<store::Entry>& files, const std::string& kind,
               std::shared_ptr<const Tokenizer> tokenizer, Progress& progress);

// The index from which the last tokens have at least `bytes` together; 0 if all of them have no more.
std::size_t end_of(std::span<const std::int32_t> tokens, const Tokenizer& tokenizer, std::int64_t bytes);
std::int64_t byte_count(std::span<const std::int32_t> tokens, const Tokenizer& tokenizer);

}  // namespace mlx::data
