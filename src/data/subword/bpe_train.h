// Makes a byte-level BPE tokenizer from text: the most frequent pair of neighbouring tokens becomes a token, again and
// again (Sennrich, Haddow, Birch 2016). Words are cut as Llama 3 does. Used by `mlx tokenizer train` and by text
// datasets whose config says tokenizer = "bpe".
//
// The result depends on the words and their counts alone: of pairs that are equally frequent the one with the smaller
// numbers is taken, as the package `tokenizers` does.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.h"
#include "data/subword/string_table.h"

namespace mlx::data::subword {

constexpr std::int64_t kLeastVocabulary = 257, kMostVocabulary = 1 << 20;

class BpeTraining {
 public:
  // Counts the words of a text, or of a part of one that ends between words.
  void add(std::string_view text);
  // The tokenizer.json of `vocabulary` tokens: the special ones, the 256 bytes, then what was merged. Throws kUsage,
  // naming `what`, if the text has too few different words for so many.
  std::string finish(std::int64_t vocabulary, const std::vector<std::string>& special, const std::string& what,
                     Progress& progress) const;

 private:
  StringTable numbers_;  // of words
  std::vector<std::string> words_;
  std::vector<std::int64_t> counts_;
};

}  // namespace mlx::data::subword
