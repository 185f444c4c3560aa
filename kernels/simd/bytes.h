// Epilogues of quantized layers: convert sums to real numbers or to the next layer's bytes. Used by int8.cpp and
// depthwise_int8.cpp. Internal linkage throughout (simd.h says why).
#pragma once

#include "kernels/simd/lanes.h"

namespace mlx::kernels::MLX_ISA {
namespace {

constexpr std::int64_t kMostProducts = INT32_MAX / (255 * 128);  // their sum of bytes fits into 32 bits

// The conversion of a sum to y, in steps of y; for gelu, which needs the real number, in real units. Per channel,
// padded to 16.
struct Epilogue {
  const float *scale, *bias;
  Activation activation;
  float low, high;  // the intersection of the activation's range and that of y's type
  float step;       // the divisor that remains
};
inline std::int64_t epilogue_floats(std::int64_t channels) {
  return 2 * ((channels + 15) / 16 * 16);
}

// Writes epilogue_floats() floats to `factors`.
inline Epilogue make_epilogue(const State* s, const Args& args, std::int64_t channels, float* factors) {
  const std::int64_t padded = (channels + 15) / 16 * 16;
  const float *b = f32_in(s, args, 2), *w_scales = f32_in(s, args, 3);
  const Activation activation = s->attrs.activation;
  const DType y = s->g.y_type;
  const float step = y == DType::kF32 ? 1.0f : s->attrs.scale_y;
  const bool after = activation == Activation::kGelu;
  const double divisor = after ? 1.0 : step, to_real = s->attrs.scale_x;
  float *scale = factors, *bias = factors + padded;
  for (std::int64_t o = 0; o < padded; ++o) {
    scale[o] = o < channels ? static_cast<float>(to_real * w_scales[o] / divisor) : 0.0f;
    bias[o] = o < channels && b ? static_cast<float>(b[o] / divisor) : 0.0f;
  }
  float low = y == DType::kF32 ? -__builtin_inff() : y == DType::kU8 ? 0.0f : -128.0f;
  float high = y == DType::kF32 ? __builtin_inff() : y == DType::kU8 ? 255.0f : 127.0f;
  if (activation == Activation::kRelu || activation == Activation::kRelu6) low = 0.0f;
  if (activation == Activation::kRelu6 && 6.0f / step < high) high = 6.0f / step;
  return {scale, bias, activation, low, high, after ? step : 1.0f};
}

// Stores the sums of channels o … o + 15, of which `left` exist, at y + at.
template <DType Y, bool Gelu>
inline void store_sums(const Epilogue& e, Ints sum, std::int64_t o, void* y, std::int64_t at, std::int64_t left) {
  Floats value = fma(to_floats(sum), load(e.scale + o), load(e.bias + o));
  if constexpr (Gelu) value = gelu16(value) / broadcast(e.step);
  const Floats inside = min(broadcast(e.high), max(broadcast(e.low), value));  // NaN passes
  if constexpr (Y != DType::kF32)
    store_narrow(static_cast<char*>(y) + at, keep(ordered(inside), to_integers(inside)), left);
  else if (left >= 16)
    store(static_cast<float*>(y) + at, inside);
  else
    store(static_cast<float*>(y) + at, inside, lanes(left));
}

// Calls body<Y, Gelu>() for the type of y and the activation.
template <typename Body>
inline void by_result(DType y, Activation activation, Body body) {
  const bool gelu = activation == Activation::kGelu;
  if (y == DType::kF32)
    return gelu ? body.template operator()<DType::kF32, true>() : body.template operator()<DType::kF32, false>();
  if (y == DType::kU8)
    return gelu ? body.template operator()<DType::kU8, true>() : body.template operator()<DType::kU8, false>();
  return gelu ? body.template operator()<DType::kS8, true>() : body.template operator()<DType::kS8, false>();
}

}  // namespace
}  // namespace mlx::kernels::MLX_ISA
