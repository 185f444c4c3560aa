// Hand-written scanners for the patterns that most published tokenizers cut text by: the same words as regex.h finds,
// many times faster; tests compare them. Used by pre_tokenizer.h.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "data/subword/pre_tokenizer.h"

namespace mlx::data::subword {

struct ScannedPattern {
  bool gpt2 = false;         // GPT-2's; else the one of cl100k, Llama 3 and Qwen 2
  unsigned most_digits = 1;  // in a word
};
extern const char* const kGpt2Pattern;
// nullopt: regex.h must do it. Each such pattern matches all of a text.
std::optional<ScannedPattern> scanned_pattern(std::string_view pattern);
// Appends the words of the bytes [begin, end) of `text`.
void scan_words(const ScannedPattern& pattern, std::string_view text, const Piece& piece, std::vector<Piece>& out);

}  // namespace mlx::data::subword
