// Unigram: of all ways to cut a word into pieces of the vocabulary, the one with the highest sum of scores (Kudo 2018).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/subword/model.h"

namespace mlx::data::subword {

// A trie of byte strings.
class Trie {
 public:
  Trie() { slots_.resize(64); }
  // Replaces the value of a string that is there. Empty strings are ignored.
  void set(std::string_view text, std::int32_t value);
  // Calls `visit(end, value)` for every string that begins at `at`, the shortest first.
  template <typename Visit>
  void each_prefix(std::string_view text, std::size_t at, const Visit& visit) const {
    std::uint32_t node = 0;
    while (at < text.size()) {
      node = child_of(node, static_cast<unsigned char>(text[at]));
      if (node == 0) return;
      ++at;
      if (values_[node] >= 0) visit(at, values_[node]);
    }
  }

 private:
  struct Slot {
    std::uint64_t key = 0;
    std::uint32_t child = 0;  // 0: free
  };
  static std::uint64_t key_of(std::uint32_t node, unsigned char byte) { return std::uint64_t{node} << 8 | byte; }
  std::size_t place_of(std::uint64_t key) const {
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t at = (key * 0x9E3779B97F4A7C15U >> 32) & mask;; at = (at + 1) & mask)
      if (slots_[at].child == 0 || slots_[at].key == key) return at;
  }
  std::uint32_t child_of(std::uint32_t node, unsigned char byte) const {
    return slots_[place_of(key_of(node, byte))].child;
  }
  std::vector<Slot> slots_;  // a power of two
  std::vector<std::int32_t> values_{-1};
};

struct UnigramSpec {
  std::vector<double> scores;  // by token
  Trie pieces;
  std::int32_t unknown = -1;
  double unknown_score = 0;
  bool byte_fallback = false;                   // unknown characters become tokens of their bytes
  std::array<std::int32_t, 256> byte_tokens{};  // -1: none
  bool single_precision = false;                // sums are rounded to float, as SentencePiece does
};

class Unigram final : public Model {
 public:
  explicit Unigram(UnigramSpec spec) : spec_(std::move(spec)) {}
  void encode(std::string_view text, std::span<const Piece> pieces, Scratch& scratch, Tokens& out) const override;

 private:
  void encode_word(std::string_view word, std::uint32_t base, Scratch& scratch, Tokens& out) const;
  void add_unknown(std::string_view part, std::uint32_t at, Tokens& out) const;
  UnigramSpec spec_;
};

}  // namespace mlx::data::subword
