// WordPiece: the longest piece of the vocabulary that a word begins with, then the longest that goes on from there; a
// word that does not come out whole is unknown (BERT). And whole words, which have a token or are unknown.
#pragma once

#include <string>

#include "data/subword/model.h"
#include "data/subword/string_table.h"

namespace mlx::data::subword {

struct WordPieceSpec {
  StringTable first, later;  // pieces at the beginning of a word, and behind it without their prefix
  std::int32_t unknown = -1;
  std::size_t most_characters = 100;  // in a word; a longer one is unknown
  bool whole_words = false;           // only whole words are looked for
};

class WordPiece final : public Model {
 public:
  explicit WordPiece(WordPieceSpec spec) : spec_(std::move(spec)) {}
  void encode(std::string_view text, std::span<const Piece> pieces, Scratch& scratch, Tokens& out) const override;

 private:
  void encode_word(std::string_view word, std::uint32_t base, Tokens& out) const;
  void add_unknown(std::string_view word, std::uint32_t base, Tokens& out) const;
  WordPieceSpec spec_;
};

}  // namespace mlx::data::subword
