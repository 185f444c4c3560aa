// Text to tokens and back. A tokenizer belongs to its model, whose version stores it as tokenizer.json
// (mlx-format-model(5)). Used by text datasets, which make one, and by generation.
//
// Kinds: "bytes" (256 tokens, one for each byte; takes any text), "chars" (one for each Unicode character of the text
// that it was made from, in order of code points), and those of other programs' files, which subword/ reads: "bpe",
// "unigram", "wordpiece", "wordlevel".
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_fwd.h"

namespace mlx::data {

// Tokens with the bytes of the text that each stands for; none for what a tokenizer puts around a text.
struct PlacedTokens {
  std::vector<std::int32_t> ids;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> places;  // [begin, end)
};

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
  // Reads what file() returned, or a file of another program: a tokenizer.json of `tokenizers`. Throws kCorrupt, naming
  // `what` and the fault, kUsage for what is not supported.
  static Tokenizer from_file(std::string_view bytes, const std::string& what);
  // The file that a model keeps; the same bytes for the same tokenizer.
  std::string file() const;
  const char* file_name() const;  // "tokenizer.json", "tokenizer.model"
  // Reads what to_json wrote; throws kCorrupt, naming `what` and the fault.
  static Tokenizer from_json(const Json& json, std::string_view what);
  Json to_json() const;  // of "bytes" and "chars"

  const std::string& kind() const { return kind_; }
  // Whether every text has tokens, so that none is kUnknown.
  bool takes_all() const { return kind_ != "chars"; }
  std::int64_t size() const;
  // A character outside the vocabulary becomes kUnknown and is counted in `unknown`. Without `unknown` it throws
  // kUsage, naming the character and its place in `what`, in which `text` begins at `offset`. `begins`: `text` is the
  // beginning of one, and gets what a tokenizer puts before it, such as a blank.
  std::vector<std::int32_t> encode(std::string_view text, std::string_view what, std::int64_t* unknown = nullptr,
                                   std::uint64_t offset = 0, bool begins = true) const;
  // With places. `special`: with the tokens that the tokenizer puts around a text.
  PlacedTokens encode_placed(std::string_view text, std::string_view what, bool special) const;
  // The bytes at the end of `text` whose tokens may depend on what follows: a part of a character, or of a line.
  std::size_t unfinished(std::string_view text) const;
  // The bytes that one token stands for inside of a text: a whole character for "chars"; "" if it is in no vocabulary.
  std::string_view piece(std::int32_t token) const;
  // The pieces in a row: what a text goes on with.
  std::string decode(std::span<const std::int32_t> tokens) const;
  // A whole text, as the file says: without the blank in front that encoding put there. `skip_special`: markers are
  // left out.
  std::string decode_text(std::span<const std::int32_t> tokens, bool skip_special) const;
  // The name in the vocabulary, which may be written in another alphabet than the piece.
  std::string name(std::int32_t token) const;
  // A marker and no text: left out of decode_text() if it is to skip them.
  bool is_special(std::int32_t token) const;
  bool operator==(const Tokenizer& other) const;

 private:
  struct Subword;
  Tokenizer(std::string kind, std::vector<std::string> pieces);
  std::string kind_;
  std::shared_ptr<const Subword> subword_;  // null for "bytes" and "chars"
  std::vector<std::string> pieces_;         // by token
  std::vector<std::int32_t> tokens_;        // chars: by code point
};

}  // namespace mlx::data
