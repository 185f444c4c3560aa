// Byte pair encoding: a word is cut into characters or bytes, and then the pair with the least rank is merged, the
// leftmost first, until none is left. (Sennrich, Haddow, Birch 2016; GPT-2's form works on bytes.)
//
// One engine serves tokenizer.json, whose merges have ranks, and SentencePiece, whose pieces have scores.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/subword/model.h"
#include "data/subword/string_table.h"

namespace mlx::data::subword {

// The merges: (left, right) to rank and result.
class MergeTable {
 public:
  struct Merge {
    std::uint64_t pair = ~std::uint64_t{0};
    std::uint32_t rank = 0;
    std::int32_t made = -1;
  };
  void reserve(std::size_t count);
  void set(std::int32_t left, std::int32_t right, std::uint32_t rank, std::int32_t made);
  // made < 0: the pair does not merge.
  const Merge& find(std::int32_t left, std::int32_t right) const {
    return slots_[place_of(std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right))];
  }

 private:
  std::size_t place_of(std::uint64_t pair) const {
    std::uint64_t hash = pair * 0x9E3779B97F4A7C15U;
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t at = (hash >> 32) & mask;; at = (at + 1) & mask)
      if (slots_[at].pair == pair || slots_[at].made < 0) return at;
  }
  std::vector<Merge> slots_ = std::vector<Merge>(16);
  std::size_t count_ = 0;
};

constexpr std::string_view kWordMark = "\xE2\x96\x81";  // U+2581, which SentencePiece writes for a blank
// Whether it stands behind another character in `name`.
bool marks_inside(std::string_view name);

struct BpeSpec {
  bool bytes = false;                 // the first symbols are bytes, not characters
  std::string prefix, suffix;         // of every character but the first, and of the last one
  std::int32_t unknown = -1;          // for characters without a token; -1: they are dropped
  std::string unknown_name;           // if the unknown token has a name that is not in the vocabulary, that is an error
  bool fuse_unknown = false;          // neighbouring unknown characters are one token
  bool byte_fallback = false;         // unknown characters become tokens of their bytes, where there are all of them
  bool whole_words = false;           // a word that has a token is not cut at all
  bool word_mark = false;             // no token has a mark (U+2581) behind another character: words end before marks
  std::int32_t tokens = kMostTokens;  // symbols from here on are no tokens: unknown where they are left
  std::array<std::int32_t, 256> byte_tokens{};  // of "<0x00>" …, for byte_fallback; -1: none
};

class Bpe final : public Model {
 public:
  // `strings`: of the vocabulary, as bytes of a text.
  Bpe(BpeSpec spec, StringTable strings, MergeTable merges);

  void encode(std::string_view text, std::span<const Piece> pieces, Scratch& scratch, Tokens& out) const override;

 private:
  void encode_word(std::string_view word, std::uint32_t base, Scratch& scratch, Tokens& out) const;
  // Merges the symbols that scratch holds, and adds what is left.
  void merge(std::string_view word, std::uint32_t base, Scratch& scratch, Tokens& out) const;
  void replace_left_over(std::string_view word, Scratch& scratch) const;
  void cut(std::string_view word, Scratch& scratch) const;
  std::int32_t first_symbol(std::string_view part, bool first, bool last, Scratch& scratch) const;
  void add_unknown(std::string_view part, std::uint32_t at, bool follows_unknown, Scratch& scratch) const;
  void merge_few(std::vector<Symbol>& symbols, std::vector<PairAt>& pairs) const;
  void merge_many(std::vector<Symbol>& symbols, std::vector<PairAt>& pairs) const;

  BpeSpec spec_;
  StringTable strings_;
  MergeTable merges_;
  std::array<std::int32_t, 256> single_{};  // by byte: the symbol of that byte alone, without prefix and suffix
  bool plain_ = false;                      // no prefix and suffix
};

}  // namespace mlx::data::subword
