// Text to tokens and back. A tokenizer belongs to its model, whose version stores it as tokenizer.json
// (mlx-format-model(5)). Used by text datasets, which make one, and by generation.
//
// Kinds: "bytes" (256 tokens, one for each byte; takes any text) and "chars" (one for each Unicode character of the
// text that it was made from, in order of code points). Both cut text into the pieces of a table. A kind with merges
// would add rules, not another table.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"

namespace mlx::data {

class Tokenizer {
 public:
  static constexpr std::int32_t kUnknown = -1;  // in no vocabulary: embeds as zeros, and does not count in losses

  static Tokenizer bytes();
  // Throws kUsage, naming the place, if `text` is not UTF-8; `what` names the text in the message.
  static Tokenizer chars(std::string_view text, std::string_view what);
  // The same for a text in pieces, which end between characters.
  class CharacterSet {
   public:
    CharacterSet();
    // `offset`: of the piece in the text, for messages.
    void add(std::string_view piece, std::string_view what, std::uint64_t offset);
    Tokenizer tokenizer() const;

   private:
    std::vector<char> seen_;  // by code point
  };
  // Reads what to_json wrote; throws kCorrupt, naming `what` and the fault.
  static Tokenizer from_json(const Json& json, std::string_view what);
  Json to_json() const;

  const std::string& kind() const { return kind_; }
  std::int64_t size() const { return static_cast<std::int64_t>(pieces_.size()); }
  // A character outside the vocabulary becomes kUnknown and is counted in `unknown`. Without `unknown` it throws
  // kUsage, naming the character and its place in `what`, in which `text` begins at `offset`.
  std::vector<std::int32_t> encode(std::string_view text, std::string_view what, std::int64_t* unknown = nullptr,
                                   std::uint64_t offset = 0) const;
  // The bytes at the end of `text` that may begin a character, whose rest is in the next piece.
  std::size_t unfinished(std::string_view text) const;
  // The bytes of one token: a whole character for "chars"; "" if it is in no vocabulary.
  std::string_view piece(std::int32_t token) const;
  std::string decode(std::span<const std::int32_t> tokens) const;
  bool operator==(const Tokenizer& other) const { return kind_ == other.kind_ && pieces_ == other.pieces_; }

 private:
  Tokenizer(std::string kind, std::vector<std::string> pieces);
  std::string kind_;
  std::vector<std::string> pieces_;   // by token
  std::vector<std::int32_t> tokens_;  // chars: by code point
};

}  // namespace mlx::data
