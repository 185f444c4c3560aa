// See quantized.h.
#include "kernels/onednn/quantized.h"

#include <cmath>

namespace mlx::kernels::onednn {
namespace {

bool is_quantized(DType dtype) {
  return dtype == DType::kS8 || dtype == DType::kU8;
}

const float* constant(const Problem& problem, int i) {
  return problem.constants ? static_cast<const float*>(problem.constants[i]) : nullptr;
}

bool is_usable(float scale) {
  return std::isfinite(scale) && scale > 0.0f && std::isfinite(1.0f / scale);
}

// `post_scale` multiplies the result of the activation.
void append_activation(dnnl::primitive_attr& attr, Activation activation, float post_scale) {
  if (activation == Activation::kNone) return;
  dnnl::post_ops post;
  if (activation == Activation::kRelu) post.append_eltwise(post_scale, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
  if (activation == Activation::kRelu6) post.append_eltwise(post_scale, dnnl::algorithm::eltwise_clip, 0.0f, 6.0f);
  if (activation == Activation::kGelu) post.append_eltwise(post_scale, dnnl::algorithm::eltwise_gelu_tanh, 0.0f, 0.0f);
  attr.set_post_ops(post);
}

// Without VNNI oneDNN adds two products of bytes in 16 bits, which saturates; results would differ from other backends.
bool sums_bytes_exactly() {
  static const bool exact = [] {
    constexpr unsigned kAvx512Vnni = 0x40, kAvx2Vnni = 0x400;  // the bits that distinguish these in dnnl_cpu_isa_t
    return (static_cast<unsigned>(dnnl_get_effective_cpu_isa()) & (kAvx512Vnni | kAvx2Vnni)) != 0;
  }();
  return exact;
}

std::optional<Epilogue> quantized_epilogue(const Problem& problem) {
  if (!sums_bytes_exactly()) return std::nullopt;
  const Shape &w = problem.inputs[1], &y = problem.outputs[0];
  const float* w_scales = constant(problem, 3);
  const float* bias = constant(problem, 2);
  const bool has_bias = has_input(problem, 2);
  if (w.dtype != DType::kS8 || !w_scales || (has_bias && !bias)) return std::nullopt;
  if (has_bias && problem.inputs[2].dtype != DType::kF32) return std::nullopt;
  if (!is_quantized(y.dtype) && y.dtype != DType::kF32) return std::nullopt;

  const float scale_x = problem.attrs.scale_x, scale_y = is_quantized(y.dtype) ? problem.attrs.scale_y : 1.0f;
  if (!is_usable(scale_x) || !is_usable(scale_y)) return std::nullopt;
  // Relu commutes with a positive scale. The others need the real number and are scaled afterwards.
  const bool scale_after =
      problem.attrs.activation == Activation::kGelu || problem.attrs.activation == Activation::kRelu6;
  Epilogue result;
  result.attr = user_scratchpad();
  std::vector<float> scales;
  for (std::int64_t o = 0; o < w.dims[0]; ++o) {
    const float to_real = scale_x * w_scales[o];
    if (!is_usable(to_real)) return std::nullopt;
    scales.push_back(scale_after ? to_real : to_real / scale_y);
    if (has_bias) result.own_bias.push_back(bias[o] / to_real);
  }
  result.attr.set_output_scales(1 << 1, scales);
  append_activation(result.attr, problem.attrs.activation, scale_after ? 1.0f / scale_y : 1.0f);
  return result;
}

}  // namespace

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

std::optional<Epilogue> epilogue(const Problem& problem) {
  if (is_quantized(problem.inputs[0].dtype)) return quantized_epilogue(problem);
  const Shape &x = problem.inputs[0], &w = problem.inputs[1], &y = problem.outputs[0];
  const bool bf16 = x.dtype == DType::kBF16;
  if ((x.dtype != DType::kF32 && !bf16) || w.dtype != DType::kF32) return std::nullopt;
  if (y.dtype != DType::kF32 && !(bf16 && y.dtype == DType::kBF16)) return std::nullopt;
  if (has_input(problem, 2) && problem.inputs[2].dtype != DType::kF32) return std::nullopt;
  Epilogue result;
  result.attr = user_scratchpad();
  append_activation(result.attr, problem.attrs.activation, 1.0f);
  return result;
}

}  // namespace mlx::kernels::onednn
