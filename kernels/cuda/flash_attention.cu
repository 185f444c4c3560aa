// Causal self-attention on tensor cores, for qkv in bf16 and f16 with heads of up to 128. The matrix of scores is not
// stored (Dao et al. 2022). A block takes some queries of one head and goes through its keys (Dao 2023), with the
// running maximum of Milakov & Gimelshein (2018). Sums and softmax are in f32; weights are rounded to the type of the
// values. The gradient is in flash_attention_backward.cu.
//
// Keys and values alternate in a ring of tiles in shared memory, which is filled while the tensor cores work. Tiles
// entirely after a block's queries are never loaded. A NaN or infinity in a query affects only its row. One in a key or
// value also affects the queries before it within the same 64 positions, whose weight for it is 0.
#include "kernels/cuda/flash_attention.h"

#include <limits>

namespace mlx::kernels::cuda {
namespace {

constexpr int kRowTiles = 2;  // of 16 queries, per warp
constexpr int kOwnQueries = 16 * kRowTiles, kQueries = kOwnQueries * kFlashWarps;
constexpr int kKeys = 64;  // per tile
constexpr int kColumnTiles = kKeys / 8;

struct FlashForward {
  FlashSizes s;
  const std::uint16_t* qkv;
  std::uint16_t* y;
  float* lse;  // or null
  float scale;
  int blocks;  // of queries, per head
};

// A block's shared memory: its queries, and the ring. More than four tiles hide no more latency. Three let two blocks
// with heads of 128 share a processor of compute capability 8.0.
template <int kHead>
struct ForwardMemory {
  static constexpr int kSlots = kHead <= 64 ? 4 : 3;
  static constexpr int kQueryBytes = Tile<kHead>::bytes(kQueries), kSlotBytes = Tile<kHead>::bytes(kKeys);
  static constexpr int kBytes = kQueryBytes + kSlots * kSlotBytes;
  static_assert(kBytes <= kMostShared);
};

// The ring: keys of tile 0, its values, keys of tile 1 … All threads of the block take part.
template <int kHead>
struct Ring {
  using Memory = ForwardMemory<kHead>;
  unsigned char* slots;
  const std::uint16_t *keys, *values;
  const FlashSizes& s;
  int tiles;       // of keys, and as many of values
  int loaded = 0;  // the number of loads begun

  __device__ unsigned char* slot(int item) const { return slots + item % Memory::kSlots * Memory::kSlotBytes; }
  __device__ void load_next() {
    if (loaded < 2 * tiles)
      load_tile<kHead, kKeys>(slot(loaded), {loaded % 2 == 0 ? keys : values, s.width}, loaded / 2 * kKeys, s);
    ++loaded;
    commit_copies();
  }
  __device__ void fill() {
    for (int i = 0; i + 1 < Memory::kSlots; ++i) load_next();
  }
  // Items are requested in order. Afterwards all threads are done with the item before, and its slot is filled again.
  __device__ const unsigned char* wait_for(int item) {
    wait_copies<Memory::kSlots - 2>();
    __syncthreads();
    load_next();
    return slot(item);
  }
};

// The running maximum of a thread's rows, unscaled, and its own part of the sum of exponentials. The sums of values are
// rescaled with them. Rows g and g+8 of each tile of 16.
template <int kHead>
struct Softmax {
  float max[kRowTiles][2], sum[kRowTiles][2];
  FragmentC values[kRowTiles][kHead / 8];

  __device__ void start() {
    MLX_UNROLL
    for (int i = 0; i < 2 * kRowTiles; ++i) max[i / 2][i % 2] = -INFINITY, sum[i / 2][i % 2] = 0.0f;
    MLX_UNROLL
    for (int i = 0; i < kRowTiles * kHead / 8; ++i) values[i / (kHead / 8)][i % (kHead / 8)] = {};
  }

  // Turns scores into weights. `scale` is positive and converts scores to exponents of two.
  __device__ void weigh(FragmentC (&scores)[kRowTiles][kColumnTiles], float scale) {
    MLX_UNROLL
    for (int i = 0; i < 2 * kRowTiles; ++i)
      weigh_row(scores[i / 2], values[i / 2], i % 2, max[i / 2][i % 2], sum[i / 2][i % 2], scale);
  }

  // The sum of a row's exponentials, in each of its four lanes.
  __device__ float total(int m, int half) const {
    float all = sum[m][half];
    for (int apart = 1; apart <= 2; apart *= 2) all += __shfl_xor_sync(0xffffffffu, all, apart);
    return all;
  }

 private:
  __device__ static void weigh_row(FragmentC (&scores)[kColumnTiles], FragmentC (&of_row)[kHead / 8], int half,
                                   float& max_so_far, float& sum_so_far, float scale) {
    float largest = max_so_far;
    MLX_UNROLL
    for (int n = 0; n < kColumnTiles; ++n)
      largest = fmaxf(largest, fmaxf(scores[n].c[2 * half], scores[n].c[2 * half + 1]));
    for (int apart = 1; apart <= 2; apart *= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, apart));
    const float base = largest == -INFINITY ? 0.0f : largest * scale;  // nothing seen yet, or only -inf
    const float kept = exp2_approximate(max_so_far * scale - base);
    float added = 0.0f;
    MLX_UNROLL
    for (int i = 0; i < 2 * kColumnTiles; ++i) {
      float& score = scores[i / 2].c[2 * half + i % 2];
      score = exp2_approximate(fmaf(score, scale, -base));
      added += score;
    }
    sum_so_far = sum_so_far * kept + added;
    MLX_UNROLL
    for (int i = 0; i < 2 * (kHead / 8); ++i) of_row[i / 2].c[2 * half + i % 2] *= kept;
    max_so_far = largest;
  }
};

template <MmaType kType, int kHead>
__global__ void __launch_bounds__(kFlashThreads) flash_forward_kernel(FlashForward p) {
  using Memory = ForwardMemory<kHead>;
  const FlashSizes& s = p.s;
  const int query_head = static_cast<int>(blockIdx.x) / p.blocks;
  const int head = query_head % s.heads, group = head / (s.heads / s.kv_heads);
  const std::int64_t batch = query_head / s.heads;
  const int first = (p.blocks - 1 - static_cast<int>(blockIdx.x) % p.blocks) * kQueries;  // the longest start first
  const int past = first + kQueries < s.time ? first + kQueries : s.time;
  const int own = static_cast<int>(threadIdx.x) / kWarp * kOwnQueries;  // the warp's first row, within the block

  unsigned char* tile = block_memory();
  Ring<kHead> ring{tile + Memory::kQueryBytes, keys_of(s, p.qkv, batch, group).data,
                   values_of(s, p.qkv, batch, group).data, s, (past + kKeys - 1) / kKeys};
  load_tile<kHead, kQueries>(tile, queries_of(s, p.qkv, batch, head), first, s);
  commit_copies();
  ring.fill();
  wait_copies<Memory::kSlots - 1>();
  __syncthreads();
  constexpr bool kHeld = kHead <= 64;  // as far as registers allow
  RowFragments<kHead, kRowTiles, kHeld> queries{tile, own, {}};
  if constexpr (kHeld) queries.hold();

  const float scale = p.scale * kLog2E;
  Softmax<kHead> softmax;
  softmax.start();
  for (int i = 0; i < ring.tiles; ++i) {
    const int key = i * kKeys;
    const bool seen = key < first + own + kOwnQueries && first + own < s.time;  // by any query of this warp
    FragmentC scores[kRowTiles][kColumnTiles];
    const unsigned char* keys = ring.wait_for(2 * i);
    if (seen) {
      multiply<kType, kHead>(scores, queries, keys);
      if (key + kKeys > first + own + 1)
        each_score<kRowTiles, kColumnTiles>([&](int m, int n, int c) {
          if (key + column_in(n, c) > first + own + row_in(m, c)) scores[m][n].c[c] = -INFINITY;
        });
      softmax.weigh(scores, scale);
    }
    const unsigned char* values = ring.wait_for(2 * i + 1);
    if (seen) accumulate<kType, kHead>(softmax.values, scores, values);
  }
  if (first + own >= s.time) return;

  const int lane = threadIdx.x % kWarp;
  MLX_UNROLL
  for (int i = 0; i < 2 * kRowTiles; ++i) {
    const int m = i / 2, half = i % 2, row = first + own + 16 * m + 8 * half + lane / 4;
    const float total = softmax.total(m, half), inverse = 1.0f / total;
    MLX_UNROLL
    for (int j = 0; j < 2 * (kHead / 8); ++j) softmax.values[m][j / 2].c[2 * half + j % 2] *= inverse;
    if (p.lse && lane % 4 == 0 && row < s.time)
      p.lse[std::int64_t{query_head} * s.time + row] = softmax.max[m][half] * p.scale + logf(total);
  }
  store_rows<kType, kHead>(tile, own, softmax.values, outputs_of(s, p.y, batch, head), first + own, s);
}

void run_flash_forward(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  FlashForward p{};
  p.s = flash_sizes(s.g, {args.inputs[0], args.outputs[0]});
  p.qkv = static_cast<const std::uint16_t*>(args.inputs[0]);
  p.y = static_cast<std::uint16_t*>(args.outputs[0]);
  p.lse = f32_out(&s, args, 1);
  p.scale = 1.0f / std::sqrt(static_cast<float>(s.g.head));
  p.blocks = static_cast<int>(divide_up(s.g.time, kQueries));
  for_head(s.g, [&]<MmaType kType, int kHead>() {
    launch_with(args, ForwardMemory<kHead>::kBytes, flash_forward_kernel<kType, kHead>,
                blocks(s.g.batch * s.g.heads * p.blocks), kFlashThreads, p);
  });
}

}  // namespace

bool prepare_flash_attention(const Problem& problem, Plan& plan) {
  const bool back = problem.op == Op::kAttentionBackward, plain = problem.attrs.window == 0 && problem.attrs.cap == 0;
  if (!plain || problem.attrs.scale_a != 1.0f) return false;
  const State* s = new_state(problem, plan, back ? run_flash_backward : run_flash_forward, Takes::kHalf);
  if (!s || !is_half(s->g.x_type) || s->g.head < 1 || s->g.head > 128) return false;
  // Blocks are counted in 32 bits, and each has at least 32 rows.
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (s->g.time > kMost - kQueries || s->g.batch * s->g.heads * divide_up(s->g.time, 32) > kMost) return false;
  if (back) plan.workspace_bytes = flash_backward_bytes(s->g);
  return true;
}

}  // namespace mlx::kernels::cuda
