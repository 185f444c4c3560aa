// The tokenizer inside of a GGUF file, as the tokenizer.json of the same model. Used by gguf_model.cpp and
// convert/gguf_tokenizer_writer.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "formats/gguf.h"

namespace mlx::nn {

// How text is cut into words. The names are llama.cpp's, the expressions those of the models' own tokenizer.json.
struct GgufCutting {
  const char *name, *pattern;  // null: GPT-2's, which ByteLevel has built in
  bool composes;               // NFC
  bool whole_words, begins;    // a word with a token is not merged; a text begins with a token
};
std::span<const GgufCutting> gguf_cuttings();
// What a token is in `tokenizer.ggml.token_type`.
enum GgufTokenType : std::uint8_t {
  kNormalToken = 1,
  kUnknownToken = 2,
  kControlToken = 3,
  kUserToken = 4,
  kUnusedToken = 5,
  kByteToken = 6
};

// nullopt if the file has none. Throws kUsage, naming what is not supported; kCorrupt for tables that do not fit.
std::optional<std::string> read_gguf_tokenizer(const formats::GgufMetadata& metadata, const std::string& what);

}  // namespace mlx::nn
