// Softmax and softmax cross-entropy over the last dim on CUDA, a warp a row, or a block where rows are wide: the
// maximum and the sum of exponentials in one pass (Milakov & Gimelshein 2018), the gradient in a second. Probabilities
// are never stored.
#include "kernels/cuda/cuda.h"

namespace mlx::kernels::cuda {

// The largest element (NaN where there is one), where it stands first, and the sum of exp(x - max).
struct SoftmaxRow {
  float max, sum;
  std::int64_t best;
};

__device__ inline SoftmaxRow both(const SoftmaxRow& a, const SoftmaxRow& b) {
  SoftmaxRow all;
  const bool unordered = a.max != a.max || b.max != b.max;
  all.max = unordered ? NAN : a.max > b.max ? a.max : b.max;
  const auto scaled = [&](const SoftmaxRow& row) {
    return row.max == all.max || row.sum == 0.0f ? row.sum : row.sum * expf(row.max - all.max);
  };
  all.sum = scaled(a) + scaled(b);
  all.best = a.max == b.max ? (a.best < b.best ? a.best : b.best) : a.max > b.max ? a.best : b.best;
  return all;
}

__device__ inline SoftmaxRow from_lane(const SoftmaxRow& row, int apart) {
  SoftmaxRow other;
  other.max = __shfl_xor_sync(0xffffffffu, row.max, apart);
  other.sum = __shfl_xor_sync(0xffffffffu, row.sum, apart);
  other.best = __shfl_xor_sync(0xffffffffu, row.best, apart);
  return other;
}

// kTeam threads, a warp or a block of kThreads, take a row.
inline constexpr std::int64_t kWide = 1024;  // what a block takes from
template <int kTeam>
__device__ double team_sum(double value, double* shared) {
  if constexpr (kTeam > kWarp) return block_sum(value, shared);
  return warp_sum(value);
}

// Of a whole row, in every thread of its team. Lanes put their halves together lower lane first, so that all of them
// get the same bits. `shared` is for blocks.
template <int kTeam>
__device__ SoftmaxRow softmax_row(const float* x, std::int64_t width, SoftmaxRow* shared) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  SoftmaxRow own{-INFINITY, 0.0f, INT64_MAX};
  for (std::int64_t i = threadIdx.x % kTeam; i < width; i += kTeam) own = both(own, {x[i], 1.0f, i});
  for (int apart = 1; apart < kWarp; apart *= 2) {
    const SoftmaxRow other = from_lane(own, apart);
    own = (lane & apart) ? both(other, own) : both(own, other);
  }
  SoftmaxRow all = own;
  if constexpr (kTeam > kWarp) {
    if (lane == 0) shared[warp] = own;
    __syncthreads();
    all = shared[0];
    for (int i = 1; i < kThreads / kWarp; ++i) all = both(all, shared[i]);
    __syncthreads();
  }
  if (fabsf(all.max) == INFINITY) all.sum = NAN;  // as exp(x - max) says of the largest itself
  return all;
}

// The row of this thread's team.
template <int kTeam>
__device__ std::int64_t row_of_team() {
  return std::int64_t{blockIdx.x} * (kThreads / kTeam) + threadIdx.x / kTeam;
}
template <int kTeam, typename... Expected, typename... Actual>
void launch_teams(const Args& args, void (*kernel)(Expected...), std::int64_t rows, Actual&&... actual) {
  launch(args, kernel, blocks(divide_up(rows, kThreads / kTeam)), kThreads, static_cast<Expected>(actual)...);
}

template <int kTeam>
__global__ void softmax_kernel(std::int64_t rows, std::int64_t width, const float* logits, float* p) {
  __shared__ SoftmaxRow shared[kThreads / kWarp];
  const std::int64_t r = row_of_team<kTeam>();
  if (r >= rows) return;
  const float* x = logits + r * width;
  const SoftmaxRow row = softmax_row<kTeam>(x, width, shared);
  for (std::int64_t i = threadIdx.x % kTeam; i < width; i += kTeam) p[r * width + i] = expf(x[i] - row.max) / row.sum;
}

template <int kTeam>
void run_softmax(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  launch_teams<kTeam>(args, softmax_kernel<kTeam>, s.g.rows, s.g.rows, s.g.width, f32_in(&s, args, 0),
                      f32_out(&s, args, 0));
}

// What the rows leave for the sum over the batch. Labels (hard) or targets (shares of the classes), one of them null.
struct Loss {
  std::int64_t rows, width;
  const float *logits, *targets;
  const std::int32_t* labels;
  float smoothing;
  float* dlogits;
  double* losses;         // by row
  std::int32_t* right;    // by row
  std::int64_t* counted;  // [1]
};

__global__ void count_kernel(Loss loss) {
  __shared__ std::int64_t shared[kThreads / kWarp];
  std::int64_t count = 0;
  for (std::int64_t r = threadIdx.x; r < loss.rows; r += kThreads)
    count += !loss.labels || (loss.labels[r] >= 0 && loss.labels[r] < loss.width);
  count = block_sum(count, shared);
  if (threadIdx.x == 0) loss.counted[0] = count;
}

template <int kTeam>
__global__ void loss_kernel(Loss loss) {
  __shared__ SoftmaxRow shared[kThreads / kWarp];
  __shared__ double sums[kThreads / kWarp];
  const std::int64_t r = row_of_team<kTeam>(), width = loss.width;
  if (r >= loss.rows) return;
  const std::int64_t first = threadIdx.x % kTeam;
  const float* x = loss.logits + r * width;
  float* dx = loss.dlogits ? loss.dlogits + r * width : nullptr;
  const std::int32_t label = loss.labels ? loss.labels[r] : -1;
  if (loss.labels && (label < 0 || label >= width)) {
    for (std::int64_t i = first; dx && i < width; i += kTeam) dx[i] = 0.0f;
    if (first == 0) loss.losses[r] = 0.0, loss.right[r] = 0;
    return;
  }
  const SoftmaxRow row = softmax_row<kTeam>(x, width, shared);
  const float* t = loss.targets ? loss.targets + r * width : nullptr;
  const float log_sum = logf(row.sum) + row.max, kept = 1.0f - loss.smoothing;
  const float share = loss.smoothing / static_cast<float>(width), n = static_cast<float>(loss.counted[0]);
  const auto target = [&](std::int64_t i) { return (t ? kept * t[i] : i == label ? kept : 0.0f) + share; };
  double sum = 0.0, all = 0.0;
  for (std::int64_t i = first; i < width; i += kTeam) {
    const float wanted = target(i);
    all += wanted;
    if (t || wanted != 0.0f) sum -= double{wanted} * (x[i] - log_sum);
  }
  sum = team_sum<kTeam>(sum, sums);
  const float total = t ? static_cast<float>(team_sum<kTeam>(all, sums)) : 1.0f;  // of the targets
  for (std::int64_t i = first; dx && i < width; i += kTeam)
    dx[i] = (total * (expf(x[i] - row.max) / row.sum) - target(i)) / n;
  std::int64_t best = label;
  if (t) best = softmax_row<kTeam>(t, width, shared).best;
  if (first == 0) loss.losses[r] = sum, loss.right[r] = width > 0 && row.max == row.max && row.best == best;
}

__global__ void sum_rows_kernel(Loss loss, float* out, std::int32_t* correct, std::int32_t* counted) {
  __shared__ double shared[kThreads / kWarp];
  __shared__ std::int64_t shared_right[kThreads / kWarp];
  double sum = 0.0;
  std::int64_t right = 0;
  for (std::int64_t r = threadIdx.x; r < loss.rows; r += kThreads) sum += loss.losses[r], right += loss.right[r];
  sum = block_sum(sum, shared);
  right = block_sum(right, shared_right);
  if (threadIdx.x != 0) return;
  const std::int64_t n = loss.counted[0];
  out[0] = n ? static_cast<float>(sum / static_cast<double>(n)) : 0.0f;
  if (correct) correct[0] = static_cast<std::int32_t>(right);
  if (counted) counted[0] = static_cast<std::int32_t>(n);
}

template <int kTeam>
void run_cross_entropy(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  auto* counted = static_cast<std::int64_t*>(args.workspace);
  auto* losses = reinterpret_cast<double*>(counted + 1);
  const bool soft = s.g.has_input[1] && s.g.dy_type == DType::kF32;
  const Loss loss{s.g.rows,
                  s.g.width,
                  f32_in(&s, args, 0),
                  soft ? f32_in(&s, args, 1) : nullptr,
                  soft ? nullptr : s32_in(&s, args, 1),
                  s.attrs.rate,
                  f32_out(&s, args, 1),
                  losses,
                  reinterpret_cast<std::int32_t*>(losses + s.g.rows),
                  counted};
  launch(args, count_kernel, blocks(1), kThreads, loss);
  launch_teams<kTeam>(args, loss_kernel<kTeam>, s.g.rows, loss);
  launch(args, sum_rows_kernel, blocks(1), kThreads, loss, f32_out(&s, args, 0), s32_out(&s, args, 2),
         s32_out(&s, args, 3));
}

bool prepare_loss(const Problem& problem, Plan& plan) {
  const bool softmax = problem.op == Op::kSoftmax;
  const State* s = new_state(problem, plan, softmax ? run_softmax<kWarp> : run_cross_entropy<kWarp>);
  if (!s) return false;
  if (s->g.width >= kWide) plan.run = softmax ? run_softmax<kThreads> : run_cross_entropy<kThreads>;
  if (!softmax)
    plan.workspace_bytes =
        sizeof(std::int64_t) + static_cast<std::size_t>(s->g.rows) * (sizeof(double) + sizeof(std::int32_t));
  return true;
}

}  // namespace mlx::kernels::cuda
