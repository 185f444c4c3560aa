// The graph of an outside encoder. Used by hugging_face.cpp.
#pragma once

#include <string>

#include "nn/encoder_config.h"
#include "nn/outside_graph.h"

namespace mlx::nn {

// ids s32[batch,sequence] -> states [batch,sequence,width]; every text is in the first segment. `prefix`: what stands
// before the names of tensors, "bert.".
OutsideGraph build_encoder(const EncoderConfig& config, const std::string& prefix);

}  // namespace mlx::nn
