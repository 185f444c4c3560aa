// What the package sentence-transformers adds to an encoder's folder: how the states of a text become its vector. Used
// by hugging_face.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace mlx::nn {

struct SentencePooling {
  std::string pooling;       // "cls", "mean", "max", "last"
  bool normalize = false;    // to the length 1
  std::int64_t longest = 0;  // of a text, in tokens; 0: not said
};

// nullopt for a folder without a modules.json. Throws kUsage for what is not supported, naming it and what is;
// kCorrupt, naming the file, for files that say nothing.
std::optional<SentencePooling> read_sentence_pooling(const std::string& folder);

}  // namespace mlx::nn
