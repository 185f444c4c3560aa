// A model's tokenizer and chat template in the metadata of a GGUF file. Used by gguf_writer.cpp.
#pragma once

#include <string>
#include <vector>

#include "convert/gguf_header.h"
#include "nn/model.h"

namespace mlx::convert {

// `rows`: of the embedding, so many tokens the file names. Of a model without a tokenizer it says that there is none.
// Throws kUsage, naming `name`, for a tokenizer that llama.cpp has no form for; adds to `warnings` what it does
// otherwise.
void add_gguf_tokenizer(const nn::Model& model, std::int64_t rows, const std::string& name, GgufHeader& header,
                        std::vector<std::string>& warnings);

}  // namespace mlx::convert
