// The tokens of a tokenizer as GGUF files list them: with types, and merges or scores. Used by
// gguf_tokenizer_writer.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizer.h"

namespace mlx::convert {

struct GgufVocabulary {
  std::string model;                // "gpt2": byte-level BPE; "llama": SentencePiece's BPE
  std::string pre;                  // how gpt2 cuts words
  std::vector<std::string> names;   // by token
  std::vector<std::int32_t> types;  // nn::GgufTokenType
  std::vector<std::string> merges;  // of gpt2
  std::vector<float> scores;        // of llama
  bool space_prefix = false;        // a blank is put before a text
  std::string unknown;              // the token for what has none; "" if there is none
  bool exact = true;                // llama.cpp finds the same tokens in all texts
};

// With `rows` tokens. Throws kUsage, naming `name`, if llama.cpp has no form for it.
GgufVocabulary gguf_vocabulary(const data::Tokenizer& tokenizer, std::int64_t rows, const std::string& name);

}  // namespace mlx::convert
