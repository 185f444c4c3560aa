// Softmax and softmax cross-entropy over the last dim on CUDA. A warp takes a row, or a block if rows are wide. The
// first pass computes the maximum and the sum of exponentials (Milakov & Gimelshein 2018), the second one the gradient.
// Probabilities are never stored. Both passes are memory-bound: the logits are read twice, the second time from the
// level-2 cache if it holds the rows in progress, and the gradient is written once.
#include "kernels/cuda/pack.h"

namespace mlx::kernels::cuda {

// kTeam threads take a row: a warp, a block, or for rows of a vocabulary a large block. Larger blocks mean fewer rows
// in progress, so that their logits stay in the cache.
inline constexpr int kLargeBlock = 512;
inline constexpr std::int64_t kWide = 1024, kVeryWide = 16 * kWide;  // least widths for blocks and large blocks
template <int kTeam>
inline constexpr int kTeamThreads = kTeam > kThreads ? kTeam : kThreads;  // threads of the team's block
template <int kTeam>
inline constexpr int kTeamWarps = kTeamThreads<kTeam> / kWarp;

// The number of elements that a thread takes at once: for wide rows 16 bytes of half precision.
template <int kTeam>
inline constexpr int kChunk = kTeam > kWarp ? 8 : 1;
// Loads elements from `at` on, a multiple of kCount, which the tensor's alignment makes a Pack's alignment.
template <int kCount>
__device__ void load(const Reals& from, std::int64_t at, float (&x)[kCount]) {
  if (from.type == DType::kBF16) return load_pack<kCount>(static_cast<const BF16*>(from.data) + at, x);
  if (from.type == DType::kF16) return load_pack<kCount>(static_cast<const F16*>(from.data) + at, x);
  load_pack<kCount>(static_cast<const float*>(from.data) + at, x);
}
template <int kCount>
__device__ void store(const RealsOut& to, std::int64_t at, const float (&x)[kCount]) {
  if (to.type == DType::kBF16) return store_pack<kCount>(x, static_cast<BF16*>(to.data) + at);
  if (to.type == DType::kF16) return store_pack<kCount>(x, static_cast<F16*>(to.data) + at);
  store_pack<kCount>(x, static_cast<float*>(to.data) + at);
}

template <int kValue>
struct Count {
  static constexpr int value = kValue;
};

// Calls body(at, Count) for all elements from `begin` to `end` of a tensor, shared among the team: one at a time before
// the first multiple of kChunk and after the last, kChunk at a time between. A thread sees its elements in rising
// order.
template <int kTeam, typename Body>
__device__ void each_chunk(std::int64_t begin, std::int64_t end, Body body) {
  constexpr std::int64_t kSize = kChunk<kTeam>;
  const std::int64_t own = threadIdx.x % kTeam, aligned = divide_up(begin, kSize) * kSize, last = end / kSize * kSize;
  const std::int64_t head = aligned < end ? aligned : end, tail = last > head ? last : head;
  if constexpr (kSize > 1)
    for (std::int64_t at = begin + own; at < head; at += kTeam) body(at, Count<1>{});
  for (std::int64_t at = head + own * kSize; at < tail; at += kTeam * kSize) body(at, Count<kSize>{});
  if constexpr (kSize > 1)
    for (std::int64_t at = tail + own; at < end; at += kTeam) body(at, Count<1>{});
}

// `shared` is for blocks.
template <int kTeam>
__device__ double team_sum(double value, double* shared) {
  if constexpr (kTeam > kWarp) return block_sum<kTeam>(value, shared);
  return warp_sum(value);
}

// The largest element (NaN if there is one), its first place, and the sum of exp(x - max).
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

inline constexpr float kLog2OfE = 1.4426950408889634f, kLargestFloat = 3.402823466e38f;
__device__ inline float exponential(float x) {  // relative error about 2^-22; 0 below the normal numbers
  return exp2_approximate(kLog2OfE * x);
}

// What a thread has seen of a row. If all of it is -infinity, the first element is the largest. Exponentials are
// relative to the largest so far, or to the lowest finite number if that is -infinity, so that those of -infinity are
// 0.
struct Seen {
  float max = -INFINITY, sum = 0.0f;
  std::int64_t best = 0;
  bool is_nan = false;
  __device__ float base() const { return fmaxf(max, -kLargestFloat); }
};

// `column`: that of the first element. Only if the maximum rises must earlier sums wait for it: the exponentials of a
// chunk are independent of each other.
template <int kCount>
__device__ void see(Seen& seen, const float (&x)[kCount], std::int64_t column) {
  float most = x[0];
  MLX_UNROLL
  for (int i = 0; i < kCount; ++i) {
    most = fmaxf(most, x[i]);  // ignores NaN
    seen.is_nan = seen.is_nan || x[i] != x[i];
  }
  if (most > seen.max) {
    const float before = seen.base();
    seen.max = most;
    seen.sum *= exponential(before - seen.base());
    MLX_UNROLL
    for (int i = kCount - 1; i >= 0; --i)
      if (x[i] == most) seen.best = column + i;
  }
  float sum = 0.0f;
  const float base = seen.base();
  MLX_UNROLL
  for (int i = 0; i < kCount; ++i) sum += exponential(x[i] - base);
  seen.sum += sum;
}

// The result for row r, in every thread of its team. Lanes combine their halves lower lane first, so that all of them
// get the same bits. `shared` is for blocks.
template <int kTeam>
__device__ SoftmaxRow softmax_row(const Reals& logits, std::int64_t r, std::int64_t width, SoftmaxRow* shared) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  Seen seen;
  each_chunk<kTeam>(r * width, (r + 1) * width, [&](std::int64_t at, auto count) {
    float x[decltype(count)::value];
    load(logits, at, x);
    see(seen, x, at - r * width);
  });
  SoftmaxRow own{seen.is_nan ? NAN : seen.max, seen.sum, seen.best};
  for (int apart = 1; apart < kWarp; apart *= 2) {
    const SoftmaxRow other = from_lane(own, apart);
    own = (lane & apart) ? both(other, own) : both(own, other);
  }
  SoftmaxRow all = own;
  if constexpr (kTeam > kWarp) {
    if (lane == 0) shared[warp] = own;
    __syncthreads();
    all = shared[0];
    for (int i = 1; i < kTeamWarps<kTeam>; ++i) all = both(all, shared[i]);
    __syncthreads();
  }
  if (fabsf(all.max) == INFINITY) all.sum = NAN;  // as exp(x - max) is for the largest itself
  return all;
}

// The row of this thread's team.
template <int kTeam>
__device__ std::int64_t row_of_team() {
  constexpr int kThreadsOfBlock = kTeamThreads<kTeam>;
  return std::int64_t{blockIdx.x} * (kThreadsOfBlock / kTeam) + threadIdx.x / kTeam;
}
template <int kTeam, typename... Expected, typename... Actual>
void launch_teams(const Args& args, void (*kernel)(Expected...), std::int64_t rows, Actual&&... actual) {
  constexpr int kThreadsOfBlock = kTeamThreads<kTeam>;
  launch(args, kernel, blocks(divide_up(rows, kThreadsOfBlock / kTeam)), kThreadsOfBlock,
         static_cast<Expected>(actual)...);
}

template <int kTeam>
__global__ void __launch_bounds__(kTeamThreads<kTeam>)
    softmax_kernel(std::int64_t rows, std::int64_t width, Reals logits, RealsOut p) {
  __shared__ SoftmaxRow shared[kTeamWarps<kTeam>];
  const std::int64_t r = row_of_team<kTeam>();
  if (r >= rows) return;
  const SoftmaxRow row = softmax_row<kTeam>(logits, r, width, shared);
  for (std::int64_t i = r * width + threadIdx.x % kTeam; i < (r + 1) * width; i += kTeam)
    p.store(i, expf(logits[i] - row.max) / row.sum);
}

template <int kTeam>
void run_softmax(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  launch_teams<kTeam>(args, softmax_kernel<kTeam>, s.g.rows, s.g.rows, s.g.width, reals_in(s, args, 0, s.g.x_type),
                      reals_out(s, args, 0, s.g.y_type));
}

// What the rows read, and what they leave for the sum over the batch. Has labels or targets (class probabilities); the
// other is null.
struct Loss {
  std::int64_t rows, width;
  Reals logits, targets;
  const std::int32_t* labels;
  float smoothing;
  const float* factor;  // of the gradient; null for 1
  RealsOut dlogits;
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

// The sum of a row's targets.
template <int kTeam>
__device__ double sum_of_targets(const Loss& loss, std::int64_t r, double* shared) {
  double sum = 0.0;
  each_chunk<kTeam>(r * loss.width, (r + 1) * loss.width, [&](std::int64_t at, auto count) {
    float t[decltype(count)::value];
    load(loss.targets, at, t);
    for (const float share : t) sum += share;
  });
  return team_sum<kTeam>(sum, shared);
}

// A row's targets and their sum. The gradient is weight · (total · exp(x - max) / sum - target).
struct Wanted {
  std::int64_t label;  // with labels: the index of its element in the tensor
  float kept, share;   // a target is kept · (its share, or 1 at the label) + share
  float total;         // of the targets
};

template <bool kShares, int kCount>
__device__ void targets_of(const Loss& loss, const Wanted& wanted, std::int64_t at, float (&target)[kCount]) {
  if constexpr (kShares) {
    load(loss.targets, at, target);
    MLX_UNROLL
    for (int i = 0; i < kCount; ++i) target[i] = wanted.kept * target[i] + wanted.share;
  } else {
    const std::int64_t before = wanted.label - at;
    const int own = before >= 0 && before < kCount ? static_cast<int>(before) : -1;
    MLX_UNROLL
    for (int i = 0; i < kCount; ++i) target[i] = (i == own ? wanted.kept : 0.0f) + wanted.share;
  }
}

// Computes the gradient of row r, if wanted, and this thread's part of its loss: - sum of target · log p.
template <int kTeam, bool kShares>
__device__ double compare_row(const Loss& loss, const SoftmaxRow& row, const Wanted& wanted, std::int64_t r) {
  const float log_sum = logf(row.sum) + row.max;
  const float to_p = wanted.total / row.sum;
  const float weight = (loss.factor ? loss.factor[0] : 1.0f) / static_cast<float>(loss.counted[0]);
  const bool only_label = !kShares && wanted.share == 0.0f;  // other classes do not matter, not even infinities
  double sum = 0.0;
  if (only_label && threadIdx.x % kTeam == 0) sum = double{wanted.kept} * (double{log_sum} - loss.logits[wanted.label]);
  if (only_label && !loss.dlogits.data) return sum;
  each_chunk<kTeam>(r * loss.width, (r + 1) * loss.width, [&](std::int64_t at, auto count) {
    constexpr int kCount = decltype(count)::value;
    float x[kCount], target[kCount], dx[kCount], part = 0.0f;
    load(loss.logits, at, x);
    targets_of<kShares>(loss, wanted, at, target);
    MLX_UNROLL
    for (int i = 0; i < kCount; ++i) {
      if (!only_label) part += target[i] * (log_sum - x[i]);
      dx[i] = (exponential(x[i] - row.max) * to_p - target[i]) * weight;
    }
    sum += part;
    if (loss.dlogits.data) store(loss.dlogits, at, dx);
  });
  return sum;
}

template <int kTeam>
__device__ void ignore_row(const Loss& loss, std::int64_t r) {
  if (threadIdx.x % kTeam == 0) loss.losses[r] = 0.0, loss.right[r] = 0;
  if (!loss.dlogits.data) return;
  each_chunk<kTeam>(r * loss.width, (r + 1) * loss.width, [&](std::int64_t at, auto count) {
    float zeros[decltype(count)::value] = {};
    store(loss.dlogits, at, zeros);
  });
}

template <int kTeam, bool kShares>
__global__ void __launch_bounds__(kTeamThreads<kTeam>, kTeam == kLargeBlock ? 2 : 1) loss_kernel(Loss loss) {
  __shared__ SoftmaxRow shared[kTeamWarps<kTeam>];
  __shared__ double sums[kTeamWarps<kTeam>];
  const std::int64_t r = row_of_team<kTeam>(), width = loss.width;
  if (r >= loss.rows) return;
  const std::int32_t label = kShares ? 0 : loss.labels[r];
  if (label < 0 || label >= width) return ignore_row<kTeam>(loss, r);
  const SoftmaxRow row = softmax_row<kTeam>(loss.logits, r, width, shared);
  Wanted wanted{r * width + label, 1.0f - loss.smoothing, loss.smoothing / static_cast<float>(width), 1.0f};
  std::int64_t best = label;
  if constexpr (kShares) {
    best = softmax_row<kTeam>(loss.targets, r, width, shared).best;
    wanted.total = wanted.kept * static_cast<float>(sum_of_targets<kTeam>(loss, r, sums)) + loss.smoothing;
  }
  const double sum = team_sum<kTeam>(compare_row<kTeam, kShares>(loss, row, wanted, r), sums);
  if (threadIdx.x % kTeam == 0) loss.losses[r] = sum, loss.right[r] = row.max == row.max && row.best == best;
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

template <int kTeam, bool kShares>
void run_cross_entropy(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  auto* counted = static_cast<std::int64_t*>(args.workspace);
  auto* losses = reinterpret_cast<double*>(counted + 1);
  const Loss loss{s.g.rows,
                  s.g.width,
                  reals_in(s, args, 0, s.g.x_type),
                  kShares ? reals_in(s, args, 1, DType::kF32) : Reals{},
                  kShares ? nullptr : s32_in(&s, args, 1),
                  s.attrs.rate,
                  f32_in(&s, args, 2),
                  reals_out(s, args, 1, s.g.gradient_type),
                  losses,
                  reinterpret_cast<std::int32_t*>(losses + s.g.rows),
                  counted};
  launch(args, count_kernel, blocks(1), kThreads, loss);
  launch_teams<kTeam>(args, loss_kernel<kTeam, kShares>, s.g.rows, loss);
  launch(args, sum_rows_kernel, blocks(1), kThreads, loss, f32_out(&s, args, 0), s32_out(&s, args, 2),
         s32_out(&s, args, 3));
}

template <int kTeam>
Run run_of(Op op) {
  if (op == Op::kSoftmax) return run_softmax<kTeam>;
  return op == Op::kSoftCrossEntropy ? run_cross_entropy<kTeam, true> : run_cross_entropy<kTeam, false>;
}

bool prepare_loss(const Problem& problem, Plan& plan) {
  const State* s = new_state(problem, plan, run_of<kWarp>(problem.op), Takes::kHalf);
  if (!s) return false;
  if (s->g.width >= kWide) plan.run = run_of<kThreads>(problem.op);
  if (s->g.width >= kVeryWide) plan.run = run_of<kLargeBlock>(problem.op);
  if (problem.op != Op::kSoftmax)
    plan.workspace_bytes =
        sizeof(std::int64_t) + static_cast<std::size_t>(s->g.rows) * (sizeof(double) + sizeof(std::int32_t));
  return true;
}

}  // namespace mlx::kernels::cuda
