// The tokenizer inside of a GGUF file, as the tokenizer.json of the same model. Used by gguf_model.cpp.
#pragma once

#include <optional>
#include <string>

#include "formats/gguf.h"

namespace mlx::nn {

// nullopt if the file has none. Throws kUsage, naming what is not supported; kCorrupt for tables that do not fit.
std::optional<std::string> read_gguf_tokenizer(const formats::GgufMetadata& metadata, const std::string& what);

}  // namespace mlx::nn
