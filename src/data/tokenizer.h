// Text to tokens and back. A tokenizer belongs to its model: it stands as tokenizer.json in the model's version
// (mlx-format-model(5)). Used by text datasets, which make one, and by generation.
//
// Kinds: "bytes" (256 tokens, one for each byte: takes anything) and "chars" (one for each Unicode character that the
// text it was made from holds, in the order of their code points). Both cut text into the pieces of a table; a kind
// with merges adds rules, not another table.
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
  static constexpr std::int32_t kUnknown = -1;  // outside of every vocabulary: embeds as zeros, counts in no loss

  static Tokenizer bytes();
  // Throws kUsage naming the place where `text` is not UTF-8; `what` names the text in the message.
  static Tokenizer chars(std::string_view text, std::string_view what);
  // What to_json wrote; kCorrupt naming `what` and what is wrong.
  static Tokenizer from_json(const Json& json, std::string_view what);
  Json to_json() const;

  const std::string& kind() const { return kind_; }
  std::int64_t size() const { return static_cast<std::int64_t>(pieces_.size()); }
  // With `unknown`, what is not in the vocabulary becomes kUnknown and is counted there; without it is kUsage, naming
  // the character and where it stands in `what`.
  std::vector<std::int32_t> encode(std::string_view text, std::string_view what, std::int64_t* unknown = nullptr) const;
  // The bytes of one token: whole characters for "chars"; "" for one that is in no vocabulary.
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
