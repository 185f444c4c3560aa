// Reference batch norm over all but the last dim (Ioffe & Szegedy 2015): training, its gradient, both over the rows of
// several ranks, inference; relu and relu6 fused.
#include "kernels/ref/ref.h"

namespace mlx::kernels::ref {
namespace {

// What ranks have gathered: [ranks,2,channels].
double of_rank(const State& s, const float* gathered, int rank, int which, std::int64_t c) {
  return gathered[(2 * rank + which) * s.g.width + c];
}

// Of the rows of one channel.
struct Moments {
  double mean = 0.0, squares = 0.0, rows = 0.0;  // squares: of what is off the mean
};
template <typename X>
Moments moments_of(const State& s, const X* x, std::int64_t c) {
  Moments out{0.0, 0.0, static_cast<double>(s.g.rows)};
  for (std::int64_t r = 0; r < s.g.rows; ++r) out.mean += double{widen(x[r * s.g.width + c])};
  if (s.g.rows > 0) out.mean /= out.rows;
  for (std::int64_t r = 0; r < s.g.rows; ++r) {
    const double off = double{widen(x[r * s.g.width + c])} - out.mean;
    out.squares += off * off;
  }
  return out;
}

// Of those of all ranks, which have as many each (Chan, Golub & LeVeque 1979).
Moments joined(const State& s, const float* statistics, std::int64_t c) {
  Moments out{0.0, 0.0, static_cast<double>(s.g.parts) * static_cast<double>(s.g.rows)};
  for (int rank = 0; rank < s.g.parts; ++rank) out.mean += of_rank(s, statistics, rank, 0, c) / s.g.parts;
  for (int rank = 0; rank < s.g.parts; ++rank) {
    const double off = of_rank(s, statistics, rank, 0, c) - out.mean;
    out.squares += of_rank(s, statistics, rank, 1, c) + static_cast<double>(s.g.rows) * off * off;
  }
  return out;
}

template <typename X>
void statistics(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const Range range = range_of(&s, phase, slice);
  for (std::int64_t c = range.begin; c < range.end; ++c) {
    const Moments moments = moments_of(s, reals_in<X>(args, 0), c);
    f32_out(&s, args, 0)[c] = static_cast<float>(moments.mean);
    f32_out(&s, args, 0)[s.g.width + c] = static_cast<float>(moments.squares);
  }
}

// X: the storage type of x, float, BF16 or F16. Phase 0, sliced by channel: mean and deviation; phase 1, by row: y.
template <typename X, bool Joined>
void forward(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const std::int64_t width = s.g.width;
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
  const double momentum = s.attrs.momentum;
  for (std::int64_t c = range.begin; c < range.end; ++c) {
    const Moments of = Joined ? joined(s, f32_in(&s, args, 5), c) : moments_of(s, x, c);
    const double variance = of.rows > 0 ? of.squares / of.rows : 0.0;
    const double unbiased = of.rows > 1 ? of.squares / (of.rows - 1.0) : variance;
    mean[c] = static_cast<float>(of.mean);
    rstd[c] = static_cast<float>(1.0 / std::sqrt(variance + s.attrs.epsilon));
    f32_out(&s, args, 3)[c] = static_cast<float>((1.0 - momentum) * f32_in(&s, args, 3)[c] + momentum * of.mean);
    f32_out(&s, args, 4)[c] = static_cast<float>((1.0 - momentum) * f32_in(&s, args, 4)[c] + momentum * unbiased);
  }
}

// What the gradient reads at a place: x normalised, and dy if the activation has passed it.
template <typename X>
struct Place {
  Place(const State& state, const Args& arguments, int beta_input)
      : s(state),
        args(arguments),
        beta(state.attrs.activation != Activation::kNone ? f32_in(&state, arguments, beta_input) : nullptr) {}

  double normal(std::int64_t i, std::int64_t c) const {
    return (double{widen(reals_in<X>(args, 0)[i])} - f32_in(&s, args, 3)[c]) * f32_in(&s, args, 4)[c];
  }
  double gradient(std::int64_t i, std::int64_t c) const {
    const bool through =
        !beta || passes(s.attrs.activation, static_cast<float>(normal(i, c) * f32_in(&s, args, 2)[c] + beta[c]));
    return through ? double{load_real(args.inputs[1], s.g.dy_type, i)} : 0.0;
  }
  // Sums of a channel: of the gradient, and of the gradient times x normalised.
  void sums(std::int64_t c, double* plain, double* weighted) const {
    *plain = *weighted = 0.0;
    for (std::int64_t i = c; i < s.g.rows * s.g.width; i += s.g.width)
      *plain += gradient(i, c), *weighted += gradient(i, c) * normal(i, c);
  }

  const State& s;
  const Args& args;
  const float* beta;
};

template <typename X>
void gradient_sums(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const Place<X> at(s, args, 5);
  const Range range = range_of(&s, phase, slice);
  for (std::int64_t c = range.begin; c < range.end; ++c) {
    double plain = 0.0, weighted = 0.0;
    at.sums(c, &plain, &weighted);
    f32_out(&s, args, 0)[c] = f32_out(&s, args, 2)[c] = static_cast<float>(plain);
    f32_out(&s, args, 0)[s.g.width + c] = f32_out(&s, args, 1)[c] = static_cast<float>(weighted);
  }
}

// Phase 0, sliced by channel: dgamma and dbeta, or the sums of all ranks; phase 1, sliced by row: dx, which needs the
// sums in double.
template <typename X, bool Joined>
void backward(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const std::int64_t width = s.g.width;
  const Place<X> at(s, args, Joined ? 6 : 5);
  auto* sums = static_cast<double*>(args.workspace);  // of dy, then of dy times normalised x
  const Range range = range_of(&s, phase, slice);
  if (phase == 0) {
    for (std::int64_t c = range.begin; c < range.end; ++c) {
      if constexpr (Joined) {
        sums[c] = sums[width + c] = 0.0;
        for (int rank = 0; rank < s.g.parts; ++rank)
          for (const int which : {0, 1}) sums[which * width + c] += of_rank(s, f32_in(&s, args, 5), rank, which, c);
      } else {
        at.sums(c, &sums[c], &sums[width + c]);
        f32_out(&s, args, 1)[c] = static_cast<float>(sums[width + c]);
        f32_out(&s, args, 2)[c] = static_cast<float>(sums[c]);
      }
    }
    return;
  }
  const double n = static_cast<double>(s.g.rows) * (Joined ? s.g.parts : 1);
  for (std::int64_t r = range.begin; r < range.end; ++r)
    for (std::int64_t c = 0; c < width; ++c) {
      const std::int64_t i = r * width + c;
      const double inner = at.gradient(i, c) - sums[c] / n - at.normal(i, c) * sums[width + c] / n;
      store_real(args.outputs[0], s.g.y_type, i, f32_in(&s, args, 2)[c] * double{f32_in(&s, args, 4)[c]} * inner);
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

template <typename X>
Run run_of(Op op) {
  switch (op) {
    case Op::kBatchNormStatistics:
      return statistics<X>;
    case Op::kBatchNormSynchronised:
      return forward<X, true>;
    case Op::kBatchNormGradientSums:
      return gradient_sums<X>;
    case Op::kBatchNormSynchronisedBackward:
      return backward<X, true>;
    case Op::kBatchNormBackward:
      return backward<X, false>;
    default:
      return forward<X, false>;
  }
}

}  // namespace

bool prepare_batch_norm(const Problem& problem, Plan& plan) {
  const bool training = problem.op != Op::kBatchNormInference;
  const bool sums = problem.op == Op::kBatchNormStatistics || problem.op == Op::kBatchNormGradientSums;
  State* s = new_state(problem, plan, inference, training ? Takes::kHalf : Takes::kF32);
  if (!s) return false;
  if (training) plan.run = by_type(s->g.x_type, [&](auto as) { return run_of<decltype(as)>(problem.op); });
  const std::int64_t bytes = s->g.count * 8;
  if (training) cut(s, plan, 0, s->g.width, bytes);
  if (!sums) cut(s, plan, training ? 1 : 0, s->g.rows, bytes);
  const bool back = problem.op == Op::kBatchNormBackward || problem.op == Op::kBatchNormSynchronisedBackward;
  if (back) plan.workspace_bytes = 2 * sizeof(double) * static_cast<std::size_t>(s->g.width);
  return true;
}

}  // namespace mlx::kernels::ref
