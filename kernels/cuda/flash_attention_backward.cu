// The gradient of attention on tensor cores (flash_attention.cu). With p = exp(scores - lse) and delta_t = dy_t·y_t:
// dv_j = sum_t p_tj dy_t, ds_tj = p_tj (dy_t·v_j - delta_t), dq_t = sum_j ds_tj k_j, dk_j = sum_t ds_tj q_t.
//
// Three kernels: one computes delta; one takes keys and goes through the queries that see them, of all heads of their
// group in order; one takes queries and goes through their keys. The latter two each recompute p and ds, so there are
// seven products, while one kernel that adds dq in memory atomically has five (Dao 2023). That is the price of sums
// whose order is fixed by the shape alone. p and ds are rounded to the tensors' type; sums are in f32.
//
// A NaN or infinity in a key, value or row of dy or y affects, besides what depends on it, only what is paired with it
// at weight 0: within the same kRows positions.
#include "kernels/cuda/flash_attention.h"

namespace mlx::kernels::cuda {
namespace {

constexpr int kColumns = 32;  // rows of the other side per tile
constexpr int kColumnTiles = kColumns / 8;
constexpr int kUnitsOfRow = 16;  // threads per row for delta: a head of 128 in units of eight

// What the scores of one query need, computed by the first kernel: a weight is 2^(scores · log2(e) - lse).
struct QueryState {
  float lse, delta;  // lse to base 2
};

struct FlashBackward {
  FlashSizes s;
  const std::uint16_t *qkv, *y, *dy;
  const float* lse;
  std::uint16_t* dqkv;
  QueryState* queries;  // [B,H,padded]: padded to whole tiles; weights after the last query are 0
  int padded;
  float scale;
  int blocks;  // of rows, per head
};

static_assert(16 % sizeof(QueryState) == 0);  // copied in units
std::int64_t padded_time(const Geometry& g) {
  return divide_up(g.time, kColumns) * kColumns;
}

template <MmaType kType>
__device__ float widened(std::uint16_t bits) {
  if constexpr (kType == MmaType::kBF16)
    return from_half(BF16{bits});
  else
    return from_half(F16{bits});
}

template <MmaType kType>
__global__ void __launch_bounds__(kFlashThreads) query_state_kernel(FlashBackward p) {
  const FlashSizes& s = p.s;
  const std::int64_t row = std::int64_t{blockIdx.x} * (kFlashThreads / kUnitsOfRow) + threadIdx.x / kUnitsOfRow;
  const std::int64_t query_head = row / p.padded;
  const int t = static_cast<int>(row % p.padded), unit = static_cast<int>(threadIdx.x) % kUnitsOfRow;
  const int count = t < s.time ? s.head - 8 * unit : 0;
  const std::int64_t batch = query_head / s.heads, head = query_head % s.heads;
  const std::int64_t at = (batch * s.time + t) * s.dim + head * s.head + 8 * unit;
  const Unit y = load_unit(p.y + at, count, s.aligned), dy = load_unit(p.dy + at, count, s.aligned);
  float delta = 0.0f;
  MLX_UNROLL
  for (int i = 0; i < 8; ++i) delta += widened<kType>(y.bits[i]) * widened<kType>(dy.bits[i]);
  for (int apart = kUnitsOfRow / 2; apart > 0; apart /= 2) delta += __shfl_xor_sync(0xffffffffu, delta, apart);
  if (unit > 0) return;
  p.queries[row] = t < s.time ? QueryState{p.lse[query_head * s.time + t] * kLog2E, delta} : QueryState{INFINITY, 0.0f};
}

// A block's shared memory: its own rows of two tensors, and two stages of tiles of two tensors of the other side.
// Registers hold sums of two tiles of 16 rows for heads of up to 64, of one tile for larger heads.
template <int kHead>
struct BackwardMemory {
  static constexpr int kRowTiles = kHead <= 64 ? 2 : 1;
  static constexpr int kOwnRows = 16 * kRowTiles, kRows = kOwnRows * kFlashWarps;
  static constexpr int kRowBytes = Tile<kHead>::bytes(kRows), kColumnBytes = Tile<kHead>::bytes(kColumns);
  static constexpr int kStateBytes = kColumns * static_cast<int>(sizeof(QueryState));
  static constexpr int kStageBytes = 2 * kColumnBytes + kStateBytes;
  static constexpr int kBytes = 2 * kRowBytes + 2 * kStageBytes;
  static_assert(kBytes <= kMostShared);
  static_assert(kRows % kColumns == 0);
};

template <int kHead>
struct Stage {
  using Memory = BackwardMemory<kHead>;
  unsigned char* memory;
  __device__ Stage(unsigned char* stages, int item) : memory(stages + item % 2 * Memory::kStageBytes) {}
  __device__ unsigned char* first() const { return memory; }
  __device__ unsigned char* second() const { return memory + Memory::kColumnBytes; }
  __device__ QueryState* states() const { return reinterpret_cast<QueryState*>(memory + 2 * Memory::kColumnBytes); }
};

// For tiles [begin, end) of each of `members` in order: calls body(stage, tile) while the next tile, which load(stage,
// member, tile) began to copy, is being copied.
template <int kHead, typename Load, typename Body>
__device__ void each_tile(unsigned char* stages, int members, int begin, int end, const Load& load, const Body& body) {
  load(Stage<kHead>(stages, 0), 0, begin);
  commit_copies();
  int tile = begin;
  for (int item = 0, member = 0; member < members; ++item) {
    wait_copies<0>();
    __syncthreads();  // the copies are visible to all, and all are done with the previous tile
    const int own = tile;
    if (++tile == end) ++member, tile = begin;
    if (member < members) load(Stage<kHead>(stages, item + 1), member, tile);
    commit_copies();
    body(Stage<kHead>(stages, item), own);
  }
}

// dk and dv of some keys. The first keys are seen by the most queries, so they start first.
template <MmaType kType, int kHead>
__global__ void __launch_bounds__(kFlashThreads) key_gradient_kernel(FlashBackward p) {
  using Memory = BackwardMemory<kHead>;
  constexpr int kM = Memory::kRowTiles;
  const FlashSizes& s = p.s;
  const int key_head = static_cast<int>(blockIdx.x) / p.blocks, group = key_head % s.kv_heads;
  const int first = static_cast<int>(blockIdx.x) % p.blocks * Memory::kRows;
  const int own = static_cast<int>(threadIdx.x) / kWarp * Memory::kOwnRows;  // the warp's first row, within the block
  const int members = s.heads / s.kv_heads;
  const std::int64_t batch = key_head / s.kv_heads;
  unsigned char *keys = block_memory(), *values = keys + Memory::kRowBytes, *stages = values + Memory::kRowBytes;
  load_tile<kHead, Memory::kRows>(keys, keys_of(s, p.qkv, batch, group), first, s);
  load_tile<kHead, Memory::kRows>(values, values_of(s, p.qkv, batch, group), first, s);

  const RowFragments<kHead, kM, false> key_rows{keys, own, {}}, value_rows{values, own, {}};
  const float scale = p.scale * kLog2E;
  FragmentC dk[kM][kHead / 8] = {}, dv[kM][kHead / 8] = {};
  const auto load = [&](const Stage<kHead>& stage, int member, int tile) {
    const int head = group * members + member, query = tile * kColumns;
    load_tile<kHead, kColumns>(stage.first(), queries_of(s, p.qkv, batch, head), query, s);
    load_tile<kHead, kColumns>(stage.second(), outputs_of(s, p.dy, batch, head), query, s);
    constexpr int kEach = 16 / sizeof(QueryState);
    const int i = static_cast<int>(threadIdx.x) * kEach;
    if (i < kColumns) copy_async(stage.states() + i, p.queries + (batch * s.heads + head) * p.padded + query + i, true);
  };
  each_tile<kHead>(
      stages, members, first / kColumns, p.padded / kColumns, load, [&](const Stage<kHead>& stage, int tile) {
        const int query = tile * kColumns;
        if (query + kColumns <= first + own || first + own >= s.time) return;  // none of them sees a key of this warp
        const bool masked = query < first + own + Memory::kOwnRows - 1;
        const auto hidden = [&](int m, int n, int c) {
          return masked && query + column_in(n, c) < first + own + row_in(m, c);
        };
        FragmentC weights[kM][kColumnTiles], gradients[kM][kColumnTiles];
        multiply<kType, kHead>(weights, key_rows, stage.first());
        each_score<kM, kColumnTiles>([&](int m, int n, int c) {
          float& weight = weights[m][n].c[c];
          weight = hidden(m, n, c) ? 0.0f : exp2_approximate(fmaf(weight, scale, -stage.states()[column_in(n, c)].lse));
        });
        accumulate<kType, kHead>(dv, weights, stage.second());
        multiply<kType, kHead>(gradients, value_rows, stage.second());
        each_score<kM, kColumnTiles>([&](int m, int n, int c) {
          float& gradient = gradients[m][n].c[c];
          gradient = hidden(m, n, c) ? 0.0f : weights[m][n].c[c] * (gradient - stage.states()[column_in(n, c)].delta);
        });
        accumulate<kType, kHead>(dk, gradients, stage.first());
      });
  if (first + own >= s.time) return;
  scale_sums(dk, p.scale);
  store_rows<kType, kHead>(keys, own, dk, keys_of(s, p.dqkv, batch, group), first + own, s);
  store_rows<kType, kHead>(values, own, dv, values_of(s, p.dqkv, batch, group), first + own, s);
}

// dq of some queries. The last queries see the most keys, so they start first.
template <MmaType kType, int kHead>
__global__ void __launch_bounds__(kFlashThreads) query_gradient_kernel(FlashBackward p) {
  using Memory = BackwardMemory<kHead>;
  constexpr int kM = Memory::kRowTiles;
  const FlashSizes& s = p.s;
  const int query_head = static_cast<int>(blockIdx.x) / p.blocks, head = query_head % s.heads;
  const int group = head / (s.heads / s.kv_heads);
  const int first = (p.blocks - 1 - static_cast<int>(blockIdx.x) % p.blocks) * Memory::kRows;
  const int past = first + Memory::kRows < s.time ? first + Memory::kRows : s.time;
  const int own = static_cast<int>(threadIdx.x) / kWarp * Memory::kOwnRows;
  const std::int64_t batch = query_head / s.heads;
  unsigned char *queries = block_memory(), *dys = queries + Memory::kRowBytes, *stages = dys + Memory::kRowBytes;
  load_tile<kHead, Memory::kRows>(queries, queries_of(s, p.qkv, batch, head), first, s);
  load_tile<kHead, Memory::kRows>(dys, outputs_of(s, p.dy, batch, head), first, s);
  commit_copies();
  QueryState states[kM][2];
  MLX_UNROLL
  for (int i = 0; i < 2 * kM; ++i) {
    const int row = first + own + row_in(i / 2, 2 * (i % 2));
    states[i / 2][i % 2] =
        row < s.time ? p.queries[std::int64_t{query_head} * p.padded + row] : QueryState{INFINITY, 0.0f};
  }
  wait_copies<0>();
  __syncthreads();
  RowFragments<kHead, kM, true> query_rows{queries, own, {}}, dy_rows{dys, own, {}};
  query_rows.hold();
  dy_rows.hold();

  const float scale = p.scale * kLog2E;
  FragmentC dq[kM][kHead / 8] = {};
  const auto load = [&](const Stage<kHead>& stage, int, int tile) {
    load_tile<kHead, kColumns>(stage.first(), keys_of(s, p.qkv, batch, group), tile * kColumns, s);
    load_tile<kHead, kColumns>(stage.second(), values_of(s, p.qkv, batch, group), tile * kColumns, s);
  };
  const int tiles = (past + kColumns - 1) / kColumns;
  each_tile<kHead>(stages, 1, 0, tiles, load, [&](const Stage<kHead>& stage, int tile) {
    const int key = tile * kColumns;
    if (key >= first + own + Memory::kOwnRows || first + own >= s.time) return;  // no query of this warp sees one
    const bool masked = key + kColumns > first + own + 1;
    FragmentC weights[kM][kColumnTiles], gradients[kM][kColumnTiles];
    multiply<kType, kHead>(weights, query_rows, stage.first());
    multiply<kType, kHead>(gradients, dy_rows, stage.second());
    each_score<kM, kColumnTiles>([&](int m, int n, int c) {
      const QueryState& state = states[m][c / 2];
      const float weight = exp2_approximate(fmaf(weights[m][n].c[c], scale, -state.lse));
      const bool hidden = masked && key + column_in(n, c) > first + own + row_in(m, c);
      gradients[m][n].c[c] = hidden ? 0.0f : weight * (gradients[m][n].c[c] - state.delta);
    });
    accumulate<kType, kHead>(dq, gradients, stage.first());
  });
  if (first + own >= s.time) return;
  scale_sums(dq, p.scale);
  store_rows<kType, kHead>(queries, own, dq, queries_of(s, p.dqkv, batch, head), first + own, s);
}

}  // namespace

std::size_t flash_backward_bytes(const Geometry& g) {
  return sizeof(QueryState) * static_cast<std::size_t>(g.batch * g.heads * padded_time(g));
}

void run_flash_backward(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const Geometry& g = s.g;
  FlashBackward p{};
  p.s = flash_sizes(g, {args.inputs[0], args.inputs[1], args.inputs[3], args.outputs[0]});
  p.qkv = static_cast<const std::uint16_t*>(args.inputs[0]);
  p.y = static_cast<const std::uint16_t*>(args.inputs[1]);
  p.lse = f32_in(&s, args, 2);
  p.dy = static_cast<const std::uint16_t*>(args.inputs[3]);
  p.dqkv = static_cast<std::uint16_t*>(args.outputs[0]);
  p.queries = static_cast<QueryState*>(args.workspace);
  p.padded = static_cast<int>(padded_time(g));
  p.scale = 1.0f / std::sqrt(static_cast<float>(g.head));
  for_head(g, [&]<MmaType kType, int kHead>() {
    using Memory = BackwardMemory<kHead>;
    p.blocks = static_cast<int>(divide_up(g.time, Memory::kRows));
    const std::int64_t states = g.batch * g.heads * p.padded;
    launch(args, query_state_kernel<kType>, blocks(states * kUnitsOfRow / kFlashThreads), kFlashThreads, p);
    launch_with(args, Memory::kBytes, key_gradient_kernel<kType, kHead>, blocks(g.batch * g.kv_heads * p.blocks),
                kFlashThreads, p);
    launch_with(args, Memory::kBytes, query_gradient_kernel<kType, kHead>, blocks(g.batch * g.heads * p.blocks),
                kFlashThreads, p);
  });
}

}  // namespace mlx::kernels::cuda
