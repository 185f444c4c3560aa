// The tokenizer.json of a tokenizer whose tokens are single bytes or characters. Used by gguf_tokenizer.cpp and
// convert/hugging_face_writer.cpp.
#pragma once

#include <string>
#include <vector>

#include "base/json_fwd.h"

namespace mlx::nn {

// `letters`: by token. `bytes`: each is one byte, and every byte is there; else each is one character, and others are
// left out of a text.
Json letters_tokenizer(const std::vector<std::string>& letters, bool bytes);

}  // namespace mlx::nn
