// What a decoder is, in the metadata of a GGUF file. Used by gguf_writer.cpp.
#pragma once

#include <string>
#include <vector>

#include "convert/gguf_header.h"
#include "nn/decoder_config.h"

namespace mlx::convert {

// By what each pair of a head is slowed in models with the scaling of Llama 3.1; empty for others. A tensor of the file
// has them.
std::vector<float> gguf_rope_factors(const nn::DecoderConfig& config);
// Throws kUsage, naming `name`, for what llama.cpp computes in one way only and the model in another; adds to
// `warnings` what it leaves out.
void add_gguf_metadata(const nn::DecoderConfig& config, const std::string& name, GgufHeader& header,
                       std::vector<std::string>& warnings);

}  // namespace mlx::convert
