// The graph of an outside decoder. Used by hugging_face.cpp, gguf_model.cpp and src/convert.
#pragma once

#include <string>

#include "nn/decoder_config.h"
#include "nn/outside_graph.h"

namespace mlx::nn {

// `prefix`: what stands before the names of tensors, "model.".
OutsideGraph build_decoder(const DecoderConfig& config, const std::string& prefix);

}  // namespace mlx::nn
