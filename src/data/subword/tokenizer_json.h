// Reads a tokenizer.json of the package `tokenizers`. Used by data/tokenizer.h.
//
// Whatever the file says, memory and time stay in proportion to its size; what is not supported is refused by name.
#pragma once

#include <string>
#include <string_view>

#include "data/subword/pipeline.h"

namespace mlx::data::subword {

// Throws kCorrupt, naming `what` and the key; kUsage for what is not supported.
Pipeline read_tokenizer_json(std::string_view text, const std::string& what);

}  // namespace mlx::data::subword
