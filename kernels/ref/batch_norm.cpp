// Reference batch norm over all but the last dim (Ioffe & Szegedy 2015): training, its gradient, inference; relu and
// relu6 fused.
#include "kernels/ref/ref.h"

namespace mlx::kernels::ref {
namespace {

// X: the storage type of x, float, BF16 or F16.
template <typename X>
void forward(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const std::int64_t rows = s.g.rows, width = s.g.width;
  const X* x = reals_in<X>(args, 0);
  const float *gamma = f32_in(&s, args, 1), *beta = f32_in(&s, args, 2);
  float *mean = f32_out(&s, args, 1), *rstd = f32_out(&s, args, 2);
  const Range range = range_of(&s, phase, slice);
  if (phase == 1) {
    for (std::int64_t r = range.begin; r < range.end; ++r)
      for (std::int64_t c = 0; c < width; ++c) {
        const std::int64_t i = r * width + c;
        const double normal = (double{widen(x[i])} - mean[c]) * rstd[c];
        store_real(args.outputs[0], s.g.y_type, i, activate(s.attrs.activation, normal * gamma[c] + beta[c]));
      }
    return;
  }
  const double momentum = s.attrs.momentum, n = static_cast<double>(rows);
  for (std::int64_t c = range.begin; c < range.end; ++c) {
    double sum = 0.0, squares = 0.0;
    for (std::int64_t r = 0; r < rows; ++r) sum += double{widen(x[r * width + c])};
    const double average = rows ? sum / n : 0.0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const double off = double{widen(x[r * width + c])} - average;
      squares += off * off;
    }
    const double variance = rows ? squares / n : 0.0, unbiased = rows > 1 ? squares / (n - 1.0) : variance;
    mean[c] = static_cast<float>(average);
    rstd[c] = static_cast<float>(1.0 / std::sqrt(variance + s.attrs.epsilon));
    f32_out(&s, args, 3)[c] = static_cast<float>((1.0 - momentum) * f32_in(&s, args, 3)[c] + momentum * average);
    f32_out(&s, args, 4)[c] = static_cast<float>((1.0 - momentum) * f32_in(&s, args, 4)[c] + momentum * unbiased);
  }
}

// Phase 0, sliced by channel: dgamma and dbeta; phase 1, sliced by row: dx, which needs the sums in double.
template <typename X>
void backward(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const std::int64_t rows = s.g.rows, width = s.g.width;
  const X* x = reals_in<X>(args, 0);
  const float* gamma = f32_in(&s, args, 2);
  const float *mean = f32_in(&s, args, 3), *rstd = f32_in(&s, args, 4);
  const Activation activation = s.attrs.activation;
  const float* beta = activation != Activation::kNone ? f32_in(&s, args, 5) : nullptr;
  auto* sums = static_cast<double*>(args.workspace);  // of dy, then of dy times normalised x
  const auto normal = [&](std::int64_t i, std::int64_t c) { return (double{widen(x[i])} - mean[c]) * rstd[c]; };
  const auto gradient = [&](std::int64_t i, std::int64_t c) {
    const bool through = !beta || passes(activation, static_cast<float>(normal(i, c) * gamma[c] + beta[c]));
    return through ? double{load_real(args.inputs[1], s.g.dy_type, i)} : 0.0;
  };
  const Range range = range_of(&s, phase, slice);
  if (phase == 0) {
    for (std::int64_t c = range.begin; c < range.end; ++c) {
      double plain = 0.0, weighted = 0.0;
      for (std::int64_t i = c; i < rows * width; i += width)
        plain += gradient(i, c), weighted += gradient(i, c) * normal(i, c);
      sums[c] = plain, sums[width + c] = weighted;
      f32_out(&s, args, 1)[c] = static_cast<float>(weighted);
      f32_out(&s, args, 2)[c] = static_cast<float>(plain);
    }
    return;
  }
  const double n = static_cast<double>(rows);
  for (std::int64_t r = range.begin; r < range.end; ++r)
    for (std::int64_t c = 0; c < width; ++c) {
      const std::int64_t i = r * width + c;
      const double inner = gradient(i, c) - sums[c] / n - normal(i, c) * sums[width + c] / n;
      store_real(args.outputs[0], s.g.y_type, i, gamma[c] * double{rstd[c]} * inner);
    }
}

void inference(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const std::int64_t width = s.g.width;
  const float *x = f32_in(&s, args, 0), *gamma = f32_in(&s, args, 1), *beta = f32_in(&s, args, 2);
  const float *mean = f32_in(&s, args, 3), *variance = f32_in(&s, args, 4);
  float* y = f32_out(&s, args, 0);
  const Range range = range_of(&s, phase, slice);
  for (std::int64_t r = range.begin; r < range.end; ++r)
    for (std::int64_t c = 0; c < width; ++c) {
      const double scale = gamma[c] / std::sqrt(double{variance[c]} + s.attrs.epsilon);
      y[r * width + c] =
          static_cast<float>(activate(s.attrs.activation, (double{x[r * width + c]} - mean[c]) * scale + beta[c]));
    }
}

}  // namespace

bool prepare_batch_norm(const Problem& problem, Plan& plan) {
  const bool training = problem.op != Op::kBatchNormInference, back = problem.op == Op::kBatchNormBackward;
  State* s = new_state(problem, plan, inference, training ? Takes::kHalf : Takes::kF32);
  if (!s) return false;
  if (training) {
    plan.run = by_type(s->g.x_type, [back](auto as) -> Run {
      using X = decltype(as);
      return back ? backward<X> : forward<X>;
    });
  }
  const std::int64_t bytes = s->g.count * 8;
  if (training) cut(s, plan, 0, s->g.width, bytes);
  cut(s, plan, training ? 1 : 0, s->g.rows, bytes);
  if (back) plan.workspace_bytes = 2 * sizeof(double) * static_cast<std::size_t>(s->g.width);
  return true;
}

}  // namespace mlx::kernels::ref
