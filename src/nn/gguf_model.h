// Language models out of GGUF files, as llama.cpp writes them.
#pragma once

#include <string>

#include "nn/hugging_face.h"

namespace mlx::nn {

bool may_be_gguf_file(const std::string& path);  // there is no folder
// As read_hugging_face, for a file. Tensors in floating point keep their type; of Q8_0, Q5_0 and Q4_0 the weights of
// linear layers become those of linear_groups without a loss, and the model's precision is int8 or int4; all others
// become f32.
OutsideModel read_gguf(const std::string& path, std::int64_t context);

}  // namespace mlx::nn
