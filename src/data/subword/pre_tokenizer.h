// Pre-tokenisers: how text is cut into words, each of which a model turns into tokens alone, as tokenizer.json names
// them. Used by pipeline.h; made by tokenizer_json.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "data/subword/aligned_text.h"

namespace mlx::data::subword {

// A part of the text: a word, or an added token.
struct Piece {
  std::uint32_t begin = 0, end = 0;
  std::int32_t token = -1;  // of an added token
};

// Text that is being cut: the caller's until a step rewrites it, then its own.
struct PreTokens {
  std::string_view text;
  bool rewritten = false;  // `text` is own.text(), with places if they are wanted
  bool aligned = false;    // places are wanted
  bool begins = true;      // this is the beginning of a text, not a later part of it
  AlignedText own;
  std::vector<Piece> pieces, next;

  // Makes the text its own.
  void own_text();
  // Where a byte of `text` came from.
  Span span_at(std::size_t byte) const;
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(PreTokens& tokens) const = 0;
};
using PreTokenizerPtr = std::unique_ptr<const PreTokenizer>;

struct PreTokenizers {
  std::vector<PreTokenizerPtr> steps;
  // The last step is ByteLevel: the model gets bytes, and its vocabulary is written in their alphabet
  // (byte_alphabet.h).
  bool bytes = false;
  bool rewrites_bytes = false;  // a step before writes them as characters
};

// Throws kCorrupt, naming `what` and the key; kUsage for kinds that are not known.
PreTokenizers make_pre_tokenizers(const Json& json, const std::string& what);

}  // namespace mlx::data::subword
