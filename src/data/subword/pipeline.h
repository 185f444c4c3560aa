// A whole tokenizer: added tokens, normaliser, pre-tokenisers, model, special tokens around, decoder. Used by
// data/tokenizer.h; made by tokenizer_json.h and sentencepiece.h.
//
// It does not change; any number of threads may use it, each with its own Scratch.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "data/subword/added_tokens.h"
#include "data/subword/decoder.h"
#include "data/subword/model.h"
#include "data/subword/normalizer.h"
#include "data/subword/pre_tokenizer.h"

namespace mlx::data::subword {

struct EncodeOptions {
  bool special = false;  // with the tokens that the tokenizer puts around a text
  bool spans = false;
  bool begins = true;  // the text is the beginning of one, not a later part: what is put before it is
};

// How spans of tokens lose the blanks that the tokens have.
struct SpanTrim {
  bool on = false;
  bool prefix_space = false;  // one blank in front was put there, and is no part of the text
};

class Pipeline {
 public:
  // Spans are bytes of `text`. Throws kUsage where a text has no tokens.
  void encode(std::string_view text, const EncodeOptions& options, Scratch& scratch, Tokens& out) const;
  std::string decode(std::span<const std::int32_t> ids, bool skip_special) const;

  std::string kind;  // "bpe", "unigram", "wordpiece", "wordlevel"
  NormalizerPtr normalizer;
  AddedTokenFinder added, normalized_added;  // in the text as it is, and as the normaliser left it
  PreTokenizers pre_tokenizers;
  ModelPtr model;
  Decoder decoder;
  SpanTrim trim;
  std::vector<std::int32_t> before, behind;  // special tokens around a text
  std::vector<std::string> names;            // by token; "" for numbers that no token has
  std::vector<std::string> pieces;           // by token: the bytes that it stands for inside of a text
  std::vector<bool> special, is_added;       // by token
  bool strips_mark = false,
       strips_marks = false;                    // SentencePiece: of a decoded text, the first U+2581 in front, or all
  std::map<std::int32_t, std::string> decoded;  // tokens that are decoded as something else than their names

 private:
  void normalize(std::string_view text, PreTokens& tokens, bool begins) const;
  void trim_spans(std::string_view text, Tokens& out) const;
};

}  // namespace mlx::data::subword
