// The reference kernels: plain loops with double accumulation, the oracle for every other backend. Used by kernels/ref
// only.
//
// No output element depends on which other rows, images or sequences are computed in the same call: decoding a position
// with a cache gives the same bits as evaluating the whole sequence. Sums over rows (gradients of parameters) run in
// row order.
#pragma once

#include <cmath>

#include "kernels/half.h"
#include "kernels/plan.h"

namespace mlx::kernels::ref {

// One function for each family of operations.
#define MLX_OP(op, name, family, ...) bool prepare_##family(const Problem& problem, Plan& plan);
#define MLX_VIEW(...)
#define MLX_COLLECTIVE(...)
#include "kernels/op_list.h"

inline const State& state_of(const void* state) {
  return *static_cast<const State*>(state);
}

// Hendrycks & Gimpel 2016, the tanh form. Beyond ±kGeluEnd it equals its limits, 0 and x.
inline constexpr double kGeluEnd = 20.0;
inline double gelu(double x) {
  if (x < -kGeluEnd || x > kGeluEnd) return x > 0.0 ? x : 0.0;
  return 0.5 * x * (1.0 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}
inline double gelu_slope(double x) {  // its gradient
  if (x < -kGeluEnd || x > kGeluEnd) return x > 0.0 ? 1.0 : 0.0;
  constexpr double kRoot = 0.7978845608028654;
  const double tanh = std::tanh(kRoot * (x + 0.044715 * x * x * x));
  return 0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh * tanh) * kRoot * (1.0 + 3 * 0.044715 * x * x);
}

inline double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return x < 0.0 ? 0.0 : x;  // NaN stays NaN
    case Activation::kGelu:
      return gelu(x);
    case Activation::kRelu6:
      return x < 0.0 ? 0.0 : x > 6.0 ? 6.0 : x;
  }
  return x;
}

// True if relu or relu6 pass the gradient on, given their output y.
inline bool passes(Activation activation, float y) {
  return y > 0.0f && (activation != Activation::kRelu6 || y < 6.0f);
}

// Rounds to nearest even and saturates; NaN becomes 0.
inline double saturate(double x, double low, double high) {
  if (!(x == x)) return 0.0;
  const double rounded = std::nearbyint(x);
  return rounded < low ? low : rounded > high ? high : rounded;
}
inline void store_quantized(void* out, DType dtype, std::int64_t i, double value) {
  if (dtype == DType::kU8)
    static_cast<std::uint8_t*>(out)[i] = static_cast<std::uint8_t>(saturate(value, 0, 255));
  else
    static_cast<std::int8_t*>(out)[i] = static_cast<std::int8_t>(saturate(value, -128, 127));
}
inline std::int64_t load_quantized(const void* in, DType dtype, std::int64_t i) {
  return dtype == DType::kU8 ? static_cast<std::int64_t>(static_cast<const std::uint8_t*>(in)[i])
                             : static_cast<std::int64_t>(static_cast<const std::int8_t*>(in)[i]);
}

// Calls `make` with a value of the type that a tensor's elements are stored as: float, BF16 or F16.
template <typename Make>
auto by_type(DType type, Make make) {
  return type == DType::kBF16 ? make(BF16{}) : type == DType::kF16 ? make(F16{}) : make(float{});
}
// Calls `make` with an unsigned integer of the size of a tensor's elements, for kernels that only move them.
template <typename Make>
auto by_size(DType type, Make make) {
  switch (size_of(type)) {
    case 1:
      return make(std::uint8_t{});
    case 2:
      return make(std::uint16_t{});
    case 4:
      return make(std::uint32_t{});
    default:
      return make(std::uint64_t{});
  }
}
// An f32 that is rounded to tf32 when it is read.
struct TF32 {
  float value;
};
inline float widen(TF32 x) {
  return to_tf32(x.value);
}
using kernels::widen;
// The same for the factors of a product.
template <typename Make>
auto by_factor(const State& s, Make make) {
  return s.attrs.tf32 && s.g.x_type == DType::kF32 ? make(TF32{}) : by_type(s.g.x_type, make);
}
// The factor that the gradient computed by a loss is multiplied by.
inline double factor_of_loss(const State& s, const Args& args) {
  return s.g.has_input[2] ? f32_in(&s, args, 2)[0] : 1.0;
}
template <typename T>
inline const T* reals_in(const Args& args, int i) {
  return static_cast<const T*>(args.inputs[i]);
}
inline float load_real(const void* in, DType dtype, std::int64_t i) {
  if (dtype == DType::kBF16) return widen(static_cast<const BF16*>(in)[i]);
  if (dtype == DType::kF16) return widen(static_cast<const F16*>(in)[i]);
  return static_cast<const float*>(in)[i];
}
inline void store_real(void* out, DType dtype, std::int64_t i, double value) {
  const auto single = static_cast<float>(value);
  if (dtype == DType::kBF16)
    static_cast<BF16*>(out)[i] = to_bf16(single);
  else if (dtype == DType::kF16)
    static_cast<F16*>(out)[i] = to_f16(single);
  else
    static_cast<float*>(out)[i] = single;
}

// The row that a norm normalises: that of x, or of x + residual. The residual is input `sum`; the sum is written to
// output `sum`.
inline const float* normed_row(const State& s, const Args& args, std::int64_t r, int sum) {
  const std::int64_t width = s.g.width;
  const float* x = f32_in(&s, args, 0) + r * width;
  if (!s.g.has_input[sum]) return x;
  float* out = f32_out(&s, args, sum) + r * width;
  for (std::int64_t i = 0; i < width; ++i)
    out[i] = x[i] + load_real(args.inputs[sum], s.g.residual_type, r * width + i);
  return out;
}

// A group of x as integers, and their scale: NaN if one of x is not finite. For products with weights of few bits.
float round_group(const float* x, std::int64_t size, std::int32_t* out);

inline float rounded_to(float, float x) {
  return x;
}
inline float rounded_to(BF16, float x) {
  return widen(to_bf16(x));
}
inline float rounded_to(TF32, float x) {
  return to_tf32(x);
}
inline float rounded_to(F16, float x) {
  return widen(to_f16(x));
}
// The weights of a product whose activations and gradients are stored as T. The weights are stored as T too, or as f32
// that is rounded to T when it is read.
template <typename T>
struct Weights {
  const void* data;
  DType type;
  double operator[](std::int64_t i) const {
    if (type == DType::kF32) return rounded_to(T{}, static_cast<const float*>(data)[i]);
    return widen(static_cast<const T*>(data)[i]);
  }
};
template <typename T>
inline Weights<T> weights_in(const State& s, const Args& args) {
  return {args.inputs[1], s.g.w_type};
}

}  // namespace mlx::kernels::ref
