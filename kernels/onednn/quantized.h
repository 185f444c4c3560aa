// What a fused epilogue is: activation, and for quantized operations the scales that turn an integer sum into a real
// number or into the next operation's integers. Shared by linear and convolution.
//
// oneDNN 2.x computes y = activation(scale[o] · (Σ x·w + bias[o])): the bias comes before the scale, so it is divided
// by it here.
#pragma once

#include <optional>
#include <vector>

#include "kernels/onednn/call.h"

namespace mlx::kernels::onednn {

struct Epilogue {
  dnnl::primitive_attr attr;    // scratchpad from us; activation; scales over dimension 1
  std::vector<float> own_bias;  // quantized with bias: b / (scale_x · w_scale)
};

// Problem of kLinear or kConv2d (inputs x, w, b, w_scales), f32, bf16 or quantized. Nothing where it is not served:
// quantized on a CPU without VNNI, without known scales and bias, scales that are not positive and finite, dtypes that
// do not go together.
std::optional<Epilogue> epilogue(const Problem& problem);

dnnl::primitive_attr user_scratchpad();

// Whether an optional tensor is there.
inline bool has_input(const Problem& problem, int i) {
  return i < problem.input_count && problem.inputs[i].rank >= 0;
}
inline bool has_output(const Problem& problem, int i) {
  return i < problem.output_count && problem.outputs[i].rank >= 0;
}

}  // namespace mlx::kernels::onednn
