// A language model as a GGUF file, which llama.cpp reads. Used by `mlx export model`.
#pragma once

#include <string>

#include "convert/hugging_face_writer.h"

namespace mlx::convert {

// As hugging_face_folder, with one file of the name `file`. Integers in groups become Q8_0 and Q4_0, whose groups are
// of 32: of larger ones each 32 get a scale of their own, the same. Throws kUsage too for what llama.cpp computes
// otherwise than the model, naming it.
WrittenModel gguf_file(const nn::Model& model, const WriteOptions& options, const std::string& name,
                       const std::string& file);

}  // namespace mlx::convert
