// Fused epilogues: the activation and, for quantized operations, the scales that convert an integer sum to a real
// number or to the next operation's integers. Shared by linear and convolution.
//
// oneDNN 2.x computes y = activation(scale[o] · (Σ x·w + bias[o])). The bias is added before scaling, so it is divided
// by the scale here.
#pragma once

#include <optional>
#include <vector>

#include "kernels/onednn/call.h"

namespace mlx::kernels::onednn {

struct Epilogue {
  dnnl::primitive_attr attr;    // user-provided scratchpad; activation; scales over dimension 1
  std::vector<float> own_bias;  // quantized with bias: b / (scale_x · w_scale)
};

// The epilogue for a problem of kLinear or kConv2d (inputs x, w, b, w_scales), f32, bf16 or quantized. nullopt if it is
// not served: quantized on a CPU without VNNI, unknown scales or bias, scales that are not positive and finite, dtypes
// that do not match.
std::optional<Epilogue> epilogue(const Problem& problem);

dnnl::primitive_attr user_scratchpad();

// True if an optional tensor is present.
inline bool has_input(const Problem& problem, int i) {
  return i < problem.input_count && problem.inputs[i].rank >= 0;
}
inline bool has_output(const Problem& problem, int i) {
  return i < problem.output_count && problem.outputs[i].rank >= 0;
}

}  // namespace mlx::kernels::onednn
