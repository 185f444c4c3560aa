// Batch norm with fused relu or relu6 (op_list.h): two passes over memory forward, two backward, channels in the lanes.
//
// X, D and Y are the storage types of the first input, the gradient and the first output: float or BF16.
//
// Phase 0: each slice of rows sums its channels, in f32 over 64 rows at a time, then in double. Phase 1: each slice
// adds the sums of all slices in order (a few hundred numbers, cheaper than another phase) and writes its rows. Over
// several ranks, phase 1 of the sums is one slice that writes them for the others, and what reads those of all ranks
// has one phase.
#include "kernels/simd/lanes.h"

namespace mlx::kernels::MLX_ISA {
namespace {

constexpr std::int64_t kRows = 64;  // rows of one f32 partial sum; with 128 channels they stay in the first-level cache

// Workspace: two rows of doubles per slice of phase 0, then two rows of floats per slice of phase 1. Joined: only the
// floats.
double* sums_of(const State* s, const Args& args, int slice) {
  return static_cast<double*>(args.workspace) + 2 * s->g.width * slice;
}
template <bool Joined>
float* factors_of(const State* s, const Args& args, int slice) {
  return reinterpret_cast<float*>(sums_of(s, args, Joined ? 0 : s->slices[0])) + 2 * s->g.width * slice;
}

void combine(const State* s, const Args& args, std::int64_t c, double* first, double* second) {
  *first = 0.0, *second = 0.0;
  for (int slice = 0; slice < s->slices[0]; ++slice) {
    *first += sums_of(s, args, slice)[c];
    *second += sums_of(s, args, slice)[s->g.width + c];
  }
}

// Sums x - first row and its square. With this shift a large mean costs the variance no digits.
template <typename X>
void statistics(const State* s, const X* x, Range rows, double* sums) {
  const std::int64_t width = s->g.width;
  for (std::int64_t i = 0; i < 2 * width; ++i) sums[i] = 0.0;
  for (std::int64_t row = rows.begin; row < rows.end; row += kRows) {
    const std::int64_t end = row + kRows < rows.end ? row + kRows : rows.end;
    by_channels(width, [&]<int N>(std::int64_t c, auto last) {
      Floats shift[N], sum[N], square[N];
      MLX_UNROLL
      for (int v = 0; v < N; ++v) {
        shift[v] = load(x + c + 16 * v, lanes_of(v, N, last));
        sum[v] = square[v] = zeros();
      }
      for (std::int64_t r = row; r < end; ++r) {
        MLX_UNROLL
        for (int v = 0; v < N; ++v) {
          const Floats value = load(x + r * width + c + 16 * v, lanes_of(v, N, last));
          const Floats off = value - shift[v];
          sum[v] = sum[v] + off;
          square[v] = fma(off, off, square[v]);
        }
      }
      MLX_UNROLL
      for (int v = 0; v < N; ++v) {
        add_to_doubles(sums + c + 16 * v, sum[v], lanes_of(v, N, last));
        add_to_doubles(sums + width + c + 16 * v, square[v], lanes_of(v, N, last));
      }
    });
  }
}

// y = (x - mean) * scale + beta, then the activation.
template <typename X, typename Y>
void normalise(const State* s, const X* x, const float* mean, const float* scale, const float* beta, Y* y, Range rows) {
  const std::int64_t width = s->g.width;
  const Bounds bounds = bounds_of(s->attrs.activation);
  for (std::int64_t row = rows.begin; row < rows.end; row += kRows) {
    const std::int64_t end = row + kRows < rows.end ? row + kRows : rows.end;
    by_channels(width, [&]<int N>(std::int64_t c, auto last) {
      Floats means[N], scales[N], betas[N];
      MLX_UNROLL
      for (int v = 0; v < N; ++v) {
        const auto mask = lanes_of(v, N, last);
        means[v] = load(mean + c + 16 * v, mask);
        scales[v] = load(scale + c + 16 * v, mask);
        betas[v] = load(beta + c + 16 * v, mask);
      }
      for (std::int64_t r = row; r < end; ++r) {
        MLX_UNROLL
        for (int v = 0; v < N; ++v) {
          const auto mask = lanes_of(v, N, last);
          const std::int64_t i = r * width + c + 16 * v;
          const Floats off = load(x + i, mask) - means[v];
          store(y + i, bounded16(bounds, fma(off, scales[v], betas[v])), mask);
        }
      }
    });
  }
}

// Of the rows of one channel.
struct Moments {
  double mean, squares, rows;  // squares: of what is off the mean
};
template <typename X>
Moments moments_of(const State* s, const Args& args, const X* x, std::int64_t c) {
  if (!s->g.rows) return {0.0, 0.0, 0.0};
  double sum = 0.0, square = 0.0;
  combine(s, args, c, &sum, &square);
  const double n = static_cast<double>(s->g.rows), spread = square - sum * sum / n;
  return {widen(x[c]) + sum / n, spread < 0.0 ? 0.0 : spread, n};
}

// What ranks have gathered: [ranks,2,channels].
inline double of_rank(const State* s, const float* gathered, int rank, int which, std::int64_t c) {
  return gathered[(2 * rank + which) * s->g.width + c];
}

// Of those of all ranks, which have as many rows each (Chan, Golub & LeVeque 1979).
Moments joined(const State* s, const float* gathered, std::int64_t c) {
  const double rows = static_cast<double>(s->g.rows);
  Moments out{0.0, 0.0, rows * s->g.parts};
  for (int rank = 0; rank < s->g.parts; ++rank) out.mean += of_rank(s, gathered, rank, 0, c);
  out.mean /= s->g.parts;
  for (int rank = 0; rank < s->g.parts; ++rank) {
    const double off = of_rank(s, gathered, rank, 0, c) - out.mean;
    out.squares += of_rank(s, gathered, rank, 1, c) + rows * off * off;
  }
  return out;
}

template <typename X>
void own_statistics(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const X* x = static_cast<const X*>(args.inputs[0]);
  if (phase == 0) return statistics(s, x, range_of(s, phase, slice), sums_of(s, args, slice));
  for (std::int64_t c = 0; c < s->g.width; ++c) {
    const Moments of = moments_of(s, args, x, c);
    f32_out(s, args, 0)[c] = static_cast<float>(of.mean);
    f32_out(s, args, 0)[s->g.width + c] = static_cast<float>(of.squares);
  }
}

template <typename X, typename Y, bool Joined>
void forward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const std::int64_t width = s->g.width;
  const X* x = static_cast<const X*>(args.inputs[0]);
  const Range rows = range_of(s, phase, slice);
  if (phase == 0 && !Joined) return statistics(s, x, rows, sums_of(s, args, slice));
  float *mean = factors_of<Joined>(s, args, slice), *scale = mean + width;
  const double momentum = s->attrs.momentum;
  for (std::int64_t c = 0; c < width; ++c) {
    const Moments of = Joined ? joined(s, f32_in(s, args, 5), c) : moments_of(s, args, x, c);
    const double average = of.mean, spread = of.squares, n = of.rows;
    const double variance = n > 0.0 ? spread / n : 0.0;
    const auto rstd = static_cast<float>(1.0 / sqrt(variance + double{s->attrs.epsilon}));
    mean[c] = static_cast<float>(average);
    scale[c] = rstd * f32_in(s, args, 1)[c];  // from the saved values, so that backward computes the same
    if (slice != 0) continue;
    const double unbiased = n > 1.0 ? spread / (n - 1.0) : variance;
    f32_out(s, args, 1)[c] = mean[c];
    f32_out(s, args, 2)[c] = rstd;
    f32_out(s, args, 3)[c] = static_cast<float>((1.0 - momentum) * f32_in(s, args, 3)[c] + momentum * average);
    f32_out(s, args, 4)[c] = static_cast<float>((1.0 - momentum) * f32_in(s, args, 4)[c] + momentum * unbiased);
  }
  normalise(s, x, mean, scale, f32_in(s, args, 2), static_cast<Y*>(args.outputs[0]), rows);
}

void inference(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const std::int64_t width = s->g.width;
  float* scale = static_cast<float*>(args.workspace) + width * slice;
  for (std::int64_t c = 0; c < width; ++c) {
    const double rstd = 1.0 / sqrt(double{f32_in(s, args, 4)[c]} + double{s->attrs.epsilon});
    scale[c] = static_cast<float>(rstd * f32_in(s, args, 1)[c]);
  }
  normalise(s, f32_in(s, args, 0), f32_in(s, args, 3), scale, f32_in(s, args, 2), f32_out(s, args, 0),
            range_of(s, phase, slice));
}

// The values that backward needs for a block of channels.
template <int N>
struct Channels {
  Floats mean[N], scale[N], beta[N];
};
template <int N, typename M>
Channels<N> channels_at(const State* s, const Args& args, const float* beta, std::int64_t c, M last) {
  const float *gamma = f32_in(s, args, 2), *mean = f32_in(s, args, 3), *rstd = f32_in(s, args, 4);
  Channels<N> channels;
  MLX_UNROLL
  for (int v = 0; v < N; ++v) {
    const auto mask = lanes_of(v, N, last);
    channels.mean[v] = load(mean + c + 16 * v, mask);
    channels.scale[v] = load(rstd + c + 16 * v, mask) * load(gamma + c + 16 * v, mask);  // rounded as in forward
    channels.beta[v] = beta ? load(beta + c + 16 * v, mask) : zeros();
  }
  return channels;
}

// dy if the activation passed it, which is determined by repeating forward's steps from off = x - mean.
template <bool Activated>
inline Floats passed(Floats dy, Floats off, Floats scale, Floats beta, Floats last) {
  return Activated ? keep(passes16(fma(off, scale, beta), last), dy) : dy;
}

// Sums the gradient, and the gradient times x - mean.
template <typename X, typename D, bool Activated>
void gradient_sums(const State* s, const Args& args, Range rows, double* sums) {
  const std::int64_t width = s->g.width;
  const X* x = static_cast<const X*>(args.inputs[0]);
  const D* dy = static_cast<const D*>(args.inputs[1]);
  const Floats passing = last_passing(s->attrs.activation);
  for (std::int64_t i = 0; i < 2 * width; ++i) sums[i] = 0.0;
  for (std::int64_t row = rows.begin; row < rows.end; row += kRows) {
    const std::int64_t end = row + kRows < rows.end ? row + kRows : rows.end;
    by_channels(width, [&]<int N>(std::int64_t c, auto last) {
      const Channels<N> of = channels_at<N>(s, args, f32_in(s, args, 5), c, last);
      Floats plain[N], weighted[N];
      MLX_UNROLL
      for (int v = 0; v < N; ++v) plain[v] = weighted[v] = zeros();
      for (std::int64_t r = row; r < end; ++r) {
        MLX_UNROLL
        for (int v = 0; v < N; ++v) {
          const auto mask = lanes_of(v, N, last);
          const std::int64_t i = r * width + c + 16 * v;
          const Floats off = load(x + i, mask) - of.mean[v];
          const Floats g = passed<Activated>(load(dy + i, mask), off, of.scale[v], of.beta[v], passing);
          plain[v] = plain[v] + g;
          weighted[v] = fma(g, off, weighted[v]);
        }
      }
      MLX_UNROLL
      for (int v = 0; v < N; ++v) {
        add_to_doubles(sums + c + 16 * v, plain[v], lanes_of(v, N, last));
        add_to_doubles(sums + width + c + 16 * v, weighted[v], lanes_of(v, N, last));
      }
    });
  }
}

// dx = gamma rstd (g - mean of g - (x - mean) rstd² · mean of g (x - mean)).
template <typename X, typename D, typename Y, bool Activated>
void gradient_rows(const State* s, const Args& args, const float* beta, Range rows, const float* averages) {
  const std::int64_t width = s->g.width;
  const X* x = static_cast<const X*>(args.inputs[0]);
  const D* dy = static_cast<const D*>(args.inputs[1]);
  const Floats passing = last_passing(s->attrs.activation);
  Y* dx = static_cast<Y*>(args.outputs[0]);
  for (std::int64_t row = rows.begin; row < rows.end; row += kRows) {
    const std::int64_t end = row + kRows < rows.end ? row + kRows : rows.end;
    by_channels(width, [&]<int N>(std::int64_t c, auto last) {
      const Channels<N> of = channels_at<N>(s, args, beta, c, last);
      Floats plain[N], weighted[N];
      MLX_UNROLL
      for (int v = 0; v < N; ++v) {
        plain[v] = load(averages + c + 16 * v, lanes_of(v, N, last));
        weighted[v] = load(averages + width + c + 16 * v, lanes_of(v, N, last));
      }
      for (std::int64_t r = row; r < end; ++r) {
        MLX_UNROLL
        for (int v = 0; v < N; ++v) {
          const auto mask = lanes_of(v, N, last);
          const std::int64_t i = r * width + c + 16 * v;
          const Floats off = load(x + i, mask) - of.mean[v];
          const Floats g = passed<Activated>(load(dy + i, mask), off, of.scale[v], of.beta[v], passing);
          store(dx + i, fnma(off, weighted[v], g - plain[v]) * of.scale[v], mask);
        }
      }
    });
  }
}

template <typename X, typename D, typename Y, bool Activated>
void backward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const std::int64_t width = s->g.width;
  const Range rows = range_of(s, phase, slice);
  if (phase == 0) return gradient_sums<X, D, Activated>(s, args, rows, sums_of(s, args, slice));
  float* averages = factors_of<false>(s, args, slice);
  const double n = static_cast<double>(s->g.rows);
  for (std::int64_t c = 0; c < width; ++c) {
    double plain = 0.0, weighted = 0.0;
    combine(s, args, c, &plain, &weighted);
    const double rstd = f32_in(s, args, 4)[c];
    averages[c] = static_cast<float>(s->g.rows ? plain / n : 0.0);
    averages[width + c] = static_cast<float>(s->g.rows ? weighted * rstd * rstd / n : 0.0);
    if (slice != 0) continue;
    f32_out(s, args, 1)[c] = static_cast<float>(weighted * rstd);
    f32_out(s, args, 2)[c] = static_cast<float>(plain);
  }
  gradient_rows<X, D, Y, Activated>(s, args, f32_in(s, args, 5), rows, averages);
}

template <typename X, typename D, bool Activated>
void own_gradient_sums(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const std::int64_t width = s->g.width;
  if (phase == 0) return gradient_sums<X, D, Activated>(s, args, range_of(s, phase, slice), sums_of(s, args, slice));
  for (std::int64_t c = 0; c < width; ++c) {
    double plain = 0.0, weighted = 0.0;
    combine(s, args, c, &plain, &weighted);
    weighted *= double{f32_in(s, args, 4)[c]};
    f32_out(s, args, 0)[c] = f32_out(s, args, 2)[c] = static_cast<float>(plain);
    f32_out(s, args, 0)[width + c] = f32_out(s, args, 1)[c] = static_cast<float>(weighted);
  }
}

template <typename X, typename D, typename Y, bool Activated>
void joined_backward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const std::int64_t width = s->g.width;
  float* averages = factors_of<true>(s, args, slice);
  const double n = static_cast<double>(s->g.rows) * s->g.parts;
  for (std::int64_t c = 0; c < width; ++c) {
    double plain = 0.0, weighted = 0.0;
    for (int rank = 0; rank < s->g.parts; ++rank) {
      plain += of_rank(s, f32_in(s, args, 5), rank, 0, c);
      weighted += of_rank(s, f32_in(s, args, 5), rank, 1, c);
    }
    averages[c] = static_cast<float>(s->g.rows ? plain / n : 0.0);
    averages[width + c] = static_cast<float>(s->g.rows ? weighted * double{f32_in(s, args, 4)[c]} / n : 0.0);
  }
  gradient_rows<X, D, Y, Activated>(s, args, f32_in(s, args, 6), range_of(s, phase, slice), averages);
}

template <bool Joined>
Run forward_of(const Geometry& g) {
  return stored_as(g.x_type, [&](auto x) {
    return stored_as(g.y_type, [&](auto y) { return forward<decltype(x), decltype(y), Joined>; });
  });
}
template <bool Joined, bool Activated>
Run backward_of(const Geometry& g) {
  return stored_as(g.x_type, [&](auto x) {
    return stored_as(g.dy_type, [&](auto dy) {
      return stored_as(g.y_type, [&](auto y) {
        using X = decltype(x);
        using D = decltype(dy);
        using Y = decltype(y);
        return Joined ? joined_backward<X, D, Y, Activated> : backward<X, D, Y, Activated>;
      });
    });
  });
}
template <bool Activated>
Run gradient_sums_of(const Geometry& g) {
  return stored_as(g.x_type, [&](auto x) {
    return stored_as(g.dy_type, [&](auto dy) { return own_gradient_sums<decltype(x), decltype(dy), Activated>; });
  });
}
Run run_of(Op op, const State* s) {
  const bool activated = s->attrs.activation != Activation::kNone;
  switch (op) {
    case Op::kBatchNormInference:
      return inference;
    case Op::kBatchNorm:
      return forward_of<false>(s->g);
    case Op::kBatchNormSynchronised:
      return forward_of<true>(s->g);
    case Op::kBatchNormStatistics:
      return stored_as(s->g.x_type, [](auto x) { return own_statistics<decltype(x)>; });
    case Op::kBatchNormGradientSums:
      return activated ? gradient_sums_of<true>(s->g) : gradient_sums_of<false>(s->g);
    case Op::kBatchNormSynchronisedBackward:
      return activated ? backward_of<true, true>(s->g) : backward_of<true, false>(s->g);
    default:
      return activated ? backward_of<false, true>(s->g) : backward_of<false, false>(s->g);
  }
}

}  // namespace

bool prepare_batch_norm(const Problem& problem, Plan& plan) {
  const bool training = problem.op != Op::kBatchNormInference;
  State* s = new_state(problem, plan, nullptr, training ? Takes::kBF16 : Takes::kF32);
  if (!s) return false;
  plan.run = run_of(problem.op, s);
  cut(s, plan, 0, s->g.rows, s->g.count * 8);
  const auto factors_of_slices = [s](int slices) { return bytes_of(2 * slices * s->g.width, sizeof(float)); };
  const std::size_t sums = bytes_of(2 * s->slices[0] * s->g.width, sizeof(double));
  switch (problem.op) {
    case Op::kBatchNormInference:
      plan.workspace_bytes = bytes_of(s->slices[0] * s->g.width, sizeof(float));
      return true;
    case Op::kBatchNormSynchronised:
    case Op::kBatchNormSynchronisedBackward:
      plan.workspace_bytes = factors_of_slices(s->slices[0]);
      return true;
    case Op::kBatchNormStatistics:
    case Op::kBatchNormGradientSums:
      cut(s, plan, 1, 1, 0);
      plan.workspace_bytes = sums;
      return true;
    default:
      cut(s, plan, 1, s->g.rows, s->g.count * 8);
      plan.workspace_bytes = sums + factors_of_slices(s->slices[1]);
      return true;
  }
}

}  // namespace mlx::kernels::MLX_ISA
