// Tokens that are found in a text before it is cut, whatever the model: markers such as <|endoftext|>, and words that
// were added later. Used by pipeline.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/subword/pre_tokenizer.h"
#include "data/subword/unigram.h"

namespace mlx::data::subword {

struct AddedToken {
  std::string content;
  std::int32_t id = 0;
  bool single_word = false, lstrip = false, rstrip = false, normalized = true, special = false;
};

// The tokens of one sort: found in the text as it is, or as the normaliser left it.
class AddedTokenFinder {
 public:
  // `pattern`: what to look for.
  void add(const AddedToken& token, std::string_view pattern);
  bool empty() const { return tokens_.empty(); }
  // Appends the parts of [begin, end): the longest token at the leftmost place, and the text between.
  void cut(std::string_view text, std::uint32_t begin, std::uint32_t end, std::vector<Piece>& out) const;

 private:
  Trie trie_;
  std::vector<AddedToken> tokens_;
  bool first_bytes_[256] = {};
};

}  // namespace mlx::data::subword
