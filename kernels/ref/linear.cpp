// Reference linear layer: y = act(x wᵀ + b) and its gradients, f32, tf32, half and quantized (op_list.h, kLinear…).
#include "kernels/ref/ref.h"

namespace mlx::kernels::ref {
namespace {

template <typename T>
void forward(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const std::int64_t k_count = s.g.in_width, n_count = s.g.out_width;
  const T* x = reals_in<T>(args, 0);
  const Weights<T> w = weights_in<T>(s, args);
  const float* b = f32_in(&s, args, 2);
  const Range rows = range_of(&s, phase, slice);
  for (std::int64_t row = rows.begin; row < rows.end; ++row)
    for (std::int64_t n = 0; n < n_count; ++n) {
      double sum = b ? b[n] : 0.0;
      for (std::int64_t k = 0; k < k_count; ++k) sum += double{widen(x[row * k_count + k])} * w[n * k_count + k];
      if (s.g.has_pre) store_real(args.outputs[1], s.g.y_type, row * n_count + n, sum);
      store_real(args.outputs[0], s.g.y_type, row * n_count + n, activate(s.attrs.activation, sum));
    }
}

void forward_quantized(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const std::int64_t k_count = s.g.in_width, n_count = s.g.out_width;
  const auto* w = static_cast<const std::int8_t*>(args.inputs[1]);
  const float *b = f32_in(&s, args, 2), *w_scales = f32_in(&s, args, 3);
  const Range rows = range_of(&s, phase, slice);
  for (std::int64_t row = rows.begin; row < rows.end; ++row)
    for (std::int64_t n = 0; n < n_count; ++n) {
      std::int64_t sum = 0;
      for (std::int64_t k = 0; k < k_count; ++k)
        sum += load_quantized(args.inputs[0], s.g.x_type, row * k_count + k) * w[n * k_count + k];
      const double real = static_cast<double>(sum) * s.attrs.scale_x * w_scales[n] + (b ? b[n] : 0.0);
      const double value = activate(s.attrs.activation, real);
      if (s.g.y_type == DType::kF32)
        f32_out(&s, args, 0)[row * n_count + n] = static_cast<float>(value);
      else
        store_quantized(args.outputs[0], s.g.y_type, row * n_count + n, value / s.attrs.scale_y);
    }
}

template <typename T>
void backward_data(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const std::int64_t k_count = s.g.in_width, n_count = s.g.out_width;
  const T* dy = reals_in<T>(args, 0);
  const Weights<T> w = weights_in<T>(s, args);
  const Range rows = range_of(&s, phase, slice);
  for (std::int64_t row = rows.begin; row < rows.end; ++row)
    for (std::int64_t k = 0; k < k_count; ++k) {
      double sum = 0.0;
      for (std::int64_t n = 0; n < n_count; ++n) sum += double{widen(dy[row * n_count + n])} * w[n * k_count + k];
      if (s.g.has_pre) sum *= gelu_slope(load_real(args.inputs[2], s.g.y_type, row * k_count + k));
      store_real(args.outputs[0], s.g.y_type, row * k_count + k, sum);
    }
}

template <typename T>
void backward_weights(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const std::int64_t k_count = s.g.in_width, n_count = s.g.out_width;
  const T *x = reals_in<T>(args, 0), *dy = reals_in<T>(args, 1);
  float *dw = f32_out(&s, args, 0), *db = f32_out(&s, args, 1);
  const Range columns = range_of(&s, phase, slice);
  for (std::int64_t n = columns.begin; n < columns.end; ++n) {
    for (std::int64_t k = 0; k < k_count; ++k) {
      double sum = 0.0;
      for (std::int64_t row = 0; row < s.g.rows; ++row)
        sum += double{widen(dy[row * n_count + n])} * widen(x[row * k_count + k]);
      dw[n * k_count + k] = static_cast<float>(sum);
    }
    if (!db) continue;
    double sum = 0.0;
    for (std::int64_t row = 0; row < s.g.rows; ++row) sum += load_real(args.inputs[1], s.g.x_type, row * n_count + n);
    db[n] = static_cast<float>(sum);
  }
}

}  // namespace

bool prepare_linear(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, forward_quantized, Takes::kHalf);
  if (!s) return false;
  const bool weights = problem.op == Op::kLinearBackwardWeights;
  if (!s->g.quantized) {
    plan.run = by_factor(*s, [&](auto as) -> Run {
      using T = decltype(as);
      if (weights) return backward_weights<T>;
      return problem.op == Op::kLinear ? forward<T> : backward_data<T>;
    });
  }
  cut(s, plan, 0, weights ? s->g.out_width : s->g.rows, s->g.rows * s->g.in_width * s->g.out_width);
  return true;
}

}  // namespace mlx::kernels::ref
