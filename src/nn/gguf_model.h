// Language models out of GGUF files, as llama.cpp writes them.
#pragma once

#include <string>

#include "nn/hugging_face.h"

namespace mlx::nn {

bool may_be_gguf_file(const std::string& path);  // there is no folder
// As read_hugging_face, for a file. Tensors in floating point keep their type. The weights of a linear layer all in
// Q8_0 or all in Q4_0 become those of linear_groups without a loss. Other weights in blocks stay as they are
// (linear_blocks, embedding_blocks). Layers whose parts have no such form in common become f32. The model's precision
// is precision_of().
constexpr const char* kBlocksSuffix = ".blocks";  // behind a parameter's name, where it is in blocks
OutsideModel read_gguf(const std::string& path, std::int64_t context);

}  // namespace mlx::nn
