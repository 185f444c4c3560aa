// SentencePiece's precompiled table of replacements: a trie of byte strings (a double array as the library Darts lays
// it out), and what each is replaced by. Used by normalizer.h and sentencepiece.h.
//
// Bytes: u32 size of the trie, little-endian; its units, u32 each; then the replacements, each ended by a zero byte.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/subword/aligned_text.h"

namespace mlx::data::subword {

class Charsmap {
 public:
  Charsmap() = default;
  // Throws kCorrupt, naming `what`. Whatever the bytes say, look-ups stay inside of them.
  Charsmap(std::string_view bytes, std::string_view what);

  struct Found {
    std::string_view replacement;
    std::size_t bytes = 0;  // of the text
  };
  // The longest and the shortest entry that `text` begins with.
  std::optional<Found> longest(std::string_view text) const;
  std::optional<Found> shortest(std::string_view text) const;
  bool empty() const { return units_.empty(); }

  // As the package `tokenizers` applies it: by grapheme clusters of less than six bytes, and else by characters.
  void apply(AlignedText& text) const;

 private:
  std::optional<Found> find(std::string_view text, bool longest) const;
  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

}  // namespace mlx::data::subword
