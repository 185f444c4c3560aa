// Batch norm over all but the last dim on CUDA (Ioffe & Szegedy 2015): training, its gradient, inference; relu and
// relu6 fused. Statistics are computed for each part of the rows, then combined in double (Chan, Golub & LeVeque 1983).
#include "kernels/cuda/cuda.h"

namespace mlx::kernels::cuda {

// Mean and sum of squared deviations of `count` rows of one column.
struct Moments {
  double count = 0.0, mean = 0.0, squares = 0.0;
};
__device__ inline void add_moments(Moments& sum, double count, double mean, double squares) {
  if (count == 0.0) return;
  const double both = sum.count + count, apart = mean - sum.mean;
  sum.squares += squares + apart * apart * sum.count * count / both;
  sum.mean += apart * count / both;
  sum.count = both;
}

// Like column_kernel, with Welford's recurrence (1962). Parts hold the mean and squared deviations of their rows minus
// the first row, so that a mean far from zero costs no precision.
__global__ void moments_kernel(std::int64_t rows, std::int64_t columns, Reals x, Pair* parts) {
  constexpr int kWarps = kThreads / kWarp;
  __shared__ Pair shared[kThreads];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const std::int64_t column = std::int64_t{blockIdx.x} * kWarp + lane;
  const std::int64_t begin = rows * blockIdx.y / gridDim.y, end = rows * (blockIdx.y + 1) / gridDim.y;
  Pair own{};  // mean, squares
  if (column < columns && begin + warp < end) {
    const float pivot = x[column];
    float seen = 0.0f;
    for (std::int64_t r = begin + warp; r < end; r += kWarps) {
      const float value = x[r * columns + column] - pivot, apart = value - own.first;
      seen += 1.0f;
      own.first += apart / seen;
      own.second += apart * (value - own.first);
    }
  }
  shared[threadIdx.x] = own;
  __syncthreads();
  if (warp > 0 || column >= columns) return;
  Moments sum;
  for (int i = 0; i < kWarps; ++i) {
    const std::int64_t count = begin + i < end ? (end - begin - i + kWarps - 1) / kWarps : 0;
    const Pair& other = shared[i * kWarp + lane];
    add_moments(sum, static_cast<double>(count), other.first, other.second);
  }
  parts[blockIdx.y * columns + column] = {static_cast<float>(sum.mean), static_cast<float>(sum.squares)};
}

void run_batch_norm(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const std::int64_t rows = s.g.rows, width = s.g.width, count = row_parts(rows);
  const Reals x = reals_in(s, args, 0, s.g.x_type);
  const RealsOut y = reals_out(s, args, 0, s.g.y_type);
  const float *gamma = f32_in(&s, args, 1), *beta = f32_in(&s, args, 2);
  float *mean = f32_out(&s, args, 1), *rstd = f32_out(&s, args, 2);
  float *running_mean = f32_out(&s, args, 3), *running_variance = f32_out(&s, args, 4);
  const float *old_mean = f32_in(&s, args, 3), *old_variance = f32_in(&s, args, 4);
  auto* parts = static_cast<Pair*>(args.workspace);
  const double momentum = s.attrs.momentum, epsilon = s.attrs.epsilon;
  launch(args, moments_kernel, blocks(divide_up(width, kWarp), count), kThreads, rows, width, x, parts);
  each(args, width, [=] __device__(std::int64_t c) {
    Moments sum;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t in_part = rows * (i + 1) / count - rows * i / count;
      add_moments(sum, static_cast<double>(in_part), parts[i * width + c].first, parts[i * width + c].second);
    }
    const double variance = rows ? sum.squares / static_cast<double>(rows) : 0.0;
    const double unbiased = rows > 1 ? sum.squares / static_cast<double>(rows - 1) : variance;
    if (rows > 0) sum.mean += x[c];
    mean[c] = static_cast<float>(sum.mean);
    rstd[c] = static_cast<float>(1.0 / sqrt(variance + epsilon));
    running_mean[c] = static_cast<float>((1.0 - momentum) * old_mean[c] + momentum * sum.mean);
    running_variance[c] = static_cast<float>((1.0 - momentum) * old_variance[c] + momentum * unbiased);
  });
  const Activation activation = s.attrs.activation;
  each(args, s.g.count, [=] __device__(std::int64_t i) {
    const std::int64_t c = i % width;
    y.store(i, activate(activation, (x[i] - mean[c]) * rstd[c] * gamma[c] + beta[c]));
  });
}

void run_batch_norm_backward(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const std::int64_t rows = s.g.rows, width = s.g.width, count = row_parts(rows);
  const Reals x = reals_in(s, args, 0, s.g.x_type), dy = reals_in(s, args, 1, s.g.dy_type);
  const RealsOut dx = reals_out(s, args, 0, s.g.y_type);
  const float *gamma = f32_in(&s, args, 2), *mean = f32_in(&s, args, 3), *rstd = f32_in(&s, args, 4);
  const Activation activation = s.attrs.activation;
  const float* beta = activation != Activation::kNone ? f32_in(&s, args, 5) : nullptr;
  float *dgamma = f32_out(&s, args, 1), *dbeta = f32_out(&s, args, 2);
  auto* parts = static_cast<Pair*>(args.workspace);
  // dy where the activation passed it, and normalised x.
  const auto terms = [=] __device__(std::int64_t i, std::int64_t c) -> Pair {
    const float normal = (x[i] - mean[c]) * rstd[c];
    const bool through = !beta || passes(activation, normal * gamma[c] + beta[c]);
    return {through ? dy[i] : 0.0f, normal};
  };
  const auto summed = [=] __device__(std::int64_t r, std::int64_t c) -> Pair {
    const Pair both = terms(r * width + c, c);
    return {both.first, both.first * both.second};
  };
  sum_columns(args, rows, width, summed, parts);
  each(args, width, [=] __device__(std::int64_t c) {
    const Sums sums = column_of(parts, count, width, c);
    dbeta[c] = static_cast<float>(sums.first);
    dgamma[c] = static_cast<float>(sums.second);
  });
  const float n = static_cast<float>(rows);
  each(args, s.g.count, [=] __device__(std::int64_t i) {
    const std::int64_t c = i % width;
    const Pair both = terms(i, c);
    dx.store(i, gamma[c] * rstd[c] * (both.first - dbeta[c] / n - both.second * dgamma[c] / n));
  });
}

void run_batch_norm_inference(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const std::int64_t width = s.g.width;
  const float *x = f32_in(&s, args, 0), *gamma = f32_in(&s, args, 1), *beta = f32_in(&s, args, 2);
  const float *mean = f32_in(&s, args, 3), *variance = f32_in(&s, args, 4), epsilon = s.attrs.epsilon;
  float* y = f32_out(&s, args, 0);
  const Activation activation = s.attrs.activation;
  each(args, s.g.count, [=] __device__(std::int64_t i) {
    const std::int64_t c = i % width;
    const float scale = gamma[c] / sqrtf(variance[c] + epsilon);
    y[i] = activate(activation, (x[i] - mean[c]) * scale + beta[c]);
  });
}

bool prepare_batch_norm(const Problem& problem, Plan& plan) {
  const bool training = problem.op != Op::kBatchNormInference;
  const Run run = problem.op == Op::kBatchNorm           ? run_batch_norm
                  : problem.op == Op::kBatchNormBackward ? run_batch_norm_backward
                                                         : run_batch_norm_inference;
  const State* s = new_state(problem, plan, run, training ? Takes::kHalf : Takes::kF32);
  if (!s) return false;
  if (training) plan.workspace_bytes = column_bytes(s->g.rows, s->g.width);
  return true;
}

}  // namespace mlx::kernels::cuda
