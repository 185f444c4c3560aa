// The product of two matrices on tensor cores, C[m,n] = sum over k of a(m,k) · b(k,n) in f32, for linear layers and
// implicit convolutions. Tiles go through shared memory by asynchronous copies, kStages of them in progress at once,
// and each warp multiplies its part with mma.sync (ptx.h). Factors are bf16, f16, or f32 read as tf32.
//
// An operand gives the addresses of 16-byte chunks of it, either along k (a row of a, a column of b) or across k
// (neighbouring rows of a, columns of b). Sums run over k in order, 16 (tf32: 8) at a time within the tensor core. Long
// sums with few results are cut into parts, which are added in order (product.h).
#pragma once

#include "kernels/cuda/product.h"
#include "kernels/cuda/ptx.h"

namespace mlx::kernels::cuda {

inline constexpr int kStages = 4;
inline constexpr int kDepthBytes = 64;  // of k in a tile: two mma steps
inline constexpr int kChunk = 16;       // bytes

// Each of the eight warps computes kWarpM × kWarpN of a tile of kTileM × kTileN.
inline constexpr int kTileM = 128, kTileN = 64, kWarpsM = 4, kWarpM = kTileM / kWarpsM,
                     kWarpN = kTileN / (kThreads / kWarp / kWarpsM);

template <MmaType kType>
inline constexpr int kElementBytes = kType == MmaType::kTF32 ? 4 : 2;

// One operand's tile of a stage in shared memory: kWidth rows (for b: columns) by kDepthBytes of k. The distance of
// lines is a multiple of 16 bytes but not of 32 (for tf32 across k: of 32 but not 64), so that what a warp reads at
// once is in different banks.
template <MmaType kType, bool kAlongK, int kWidth>
struct ProductTile {
  static constexpr int kSize = kElementBytes<kType>, kEach = kChunk / kSize;  // elements of a chunk
  static constexpr int kDeep = kDepthBytes / kSize;                           // elements of k
  static constexpr int kLines = kAlongK ? kWidth : kDeep;
  static constexpr int kLineChunks = kAlongK ? kDepthBytes / kChunk : kWidth / kEach;
  static constexpr int kPitch = kLineChunks * kChunk + (!kAlongK && kSize == 4 ? 32 : 16);
  static constexpr int kBytes = kLines * kPitch;
  static constexpr int kCopies = kLines * kLineChunks / kThreads;  // per thread
  static_assert(kCopies * kThreads == kLines * kLineChunks);

  // Starts copying the tile at (first, from) of [outer, k]. at(outer, k) returns the chunk's address, or null for
  // zeros.
  template <typename At>
  static __device__ void load(unsigned char* tile, int first, int from, const void* any, At at) {
    MLX_UNROLL
    for (int i = 0; i < kCopies; ++i) {
      const int chunk = static_cast<int>(threadIdx.x) + i * kThreads, line = chunk / kLineChunks;
      const int along = chunk % kLineChunks;
      const int outer = first + (kAlongK ? line : along * kEach), k = from + (kAlongK ? along * kEach : line);
      const void* address = at(outer, k);
      copy_async(tile + line * kPitch + along * kChunk, address ? address : any, address != nullptr);
    }
  }

  // Reads the registers that mma takes for 16 outer elements from `outer` on, in step `step` of k: two 8 × 8 matrices
  // each for the lower and the upper half of k. out[2 · upper + (outer elements 8 … 15)].
  static __device__ void read(std::uint32_t (&out)[4], const unsigned char* tile, int outer, int step) {
    const int lane = threadIdx.x % kWarp;
    if constexpr (kAlongK) {
      load_matrices(out, tile + (outer + lane % 16) * kPitch + step * 32 + lane / 16 * kChunk);
    } else if constexpr (kSize == 2) {
      const int k = step * 16 + lane / 16 * 8 + lane % 8;
      load_matrices_transposed(out, tile + k * kPitch + (outer + lane / 8 % 2 * 8) * kSize);
    } else {
      MLX_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int k = step * 8 + i / 2 * 4 + lane % 4, at = outer + i % 2 * 8 + lane / 4;
        out[i] = *reinterpret_cast<const std::uint32_t*>(tile + k * kPitch + at * kSize);
      }
    }
    if constexpr (kType == MmaType::kTF32) {
      MLX_UNROLL
      for (int i = 0; i < 4; ++i) out[i] = tf32_bits(__builtin_bit_cast(float, out[i]));
    }
  }
};

// A warp's part of a tile of C.
struct WarpSums {
  FragmentC c[kWarpM / 16][kWarpN / 8];
};

template <MmaType kType, bool kAlongA, bool kAlongB>
__device__ inline void multiply(WarpSums& sums, const unsigned char* left, const unsigned char* right) {
  const int warp = threadIdx.x / kWarp, top = warp % kWarpsM * kWarpM, side = warp / kWarpsM * kWarpN;
  MLX_UNROLL
  for (int step = 0; step < 2; ++step) {
    FragmentA a[kWarpM / 16];
    MLX_UNROLL
    for (int i = 0; i < kWarpM / 16; ++i) ProductTile<kType, kAlongA, kTileM>::read(a[i].a, left, top + i * 16, step);
    MLX_UNROLL
    for (int j = 0; j < kWarpN / 16; ++j) {
      std::uint32_t two[4];
      ProductTile<kType, kAlongB, kTileN>::read(two, right, side + j * 16, step);
      MLX_UNROLL
      for (int half = 0; half < 2; ++half) {
        const FragmentB b{{two[half], two[half + 2]}};
        MLX_UNROLL
        for (int i = 0; i < kWarpM / 16; ++i) mma<kType>(sums.c[i][j * 2 + half], a[i], b);
      }
    }
  }
}

// The place of a block's sums, and how many of them exist.
struct BlockTile {
  int top, side, m_count, n_count, group, part;
};

// Calls store(group, part, m, n, sum, store.beside(group, m, n)) for the block's sums. They go through shared memory,
// so that a warp reads and writes adjacent elements. kTogether reads are in progress at once, so that they need not
// wait for writes that may alias them.
inline constexpr int kSumPitch = kTileN + 8;
template <typename Store>
__device__ inline void store_beside(const WarpSums& sums, unsigned char* memory, const BlockTile& tile, Store store) {
  constexpr int kTogether = 8;
  auto* all = reinterpret_cast<float*>(memory);
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int row = warp % kWarpsM * kWarpM + lane / 4, column = warp / kWarpsM * kWarpN + lane % 4 * 2;
  __syncthreads();  // all warps are done with the stages
  MLX_UNROLL
  for (int i = 0; i < kWarpM / 16; ++i) MLX_UNROLL
  for (int j = 0; j < kWarpN / 8; ++j) MLX_UNROLL
  for (int at = 0; at < 4; ++at)
    all[(row + i * 16 + at / 2 * 8) * kSumPitch + column + j * 8 + at % 2] = sums.c[i][j].c[at];
  __syncthreads();
  const auto row_of = [](int element) { return element / kTileN; };
  const auto column_of = [](int element) { return element % kTileN; };
  const auto is_there = [&](int element) {
    return tile.top + row_of(element) < tile.m_count && tile.side + column_of(element) < tile.n_count;
  };
  MLX_NO_UNROLL
  for (int first = static_cast<int>(threadIdx.x); first < kTileM * kTileN; first += kTogether * kThreads) {
    float beside[kTogether];
    MLX_UNROLL
    for (int i = 0; i < kTogether; ++i) {
      const int at = first + i * kThreads;
      beside[i] = is_there(at) ? store.beside(tile.group, tile.top + row_of(at), tile.side + column_of(at)) : 0.0f;
    }
    MLX_UNROLL
    for (int i = 0; i < kTogether; ++i) {
      const int at = first + i * kThreads, m = row_of(at), n = column_of(at);
      if (is_there(at)) store(tile.group, tile.part, tile.top + m, tile.side + n, all[m * kSumPitch + n], beside[i]);
    }
  }
}

// a(group, m, k) and b(group, n, k) return the address of the chunk that begins there, or null for zeros. `any` is an
// address that may be read. store(group, part, m, n, sum), or what store_beside takes.
template <MmaType kType, bool kAlongA, bool kAlongB, typename A, typename B, typename Store>
__global__ void __launch_bounds__(kThreads)
    tensor_product_kernel(ProductSize size, const void* any, A a, B b, Store store) {
  using Left = ProductTile<kType, kAlongA, kTileM>;
  using Right = ProductTile<kType, kAlongB, kTileN>;
  constexpr int kDeep = Left::kDeep, kStageBytes = Left::kBytes + Right::kBytes;
  unsigned char* stages = block_memory();
  const int m_count = static_cast<int>(size.m), n_count = static_cast<int>(size.n), k_count = static_cast<int>(size.k);
  const int tiles_n = (n_count + kTileN - 1) / kTileN, tiles_k = (k_count + kDeep - 1) / kDeep;
  const int top = static_cast<int>(blockIdx.x) / tiles_n * kTileM;
  const int side = static_cast<int>(blockIdx.x) % tiles_n * kTileN;
  const int part = blockIdx.y, group = blockIdx.z, parts = static_cast<int>(size.parts);
  const int begin = static_cast<int>(std::int64_t{tiles_k} * part / parts);
  const int end = static_cast<int>(std::int64_t{tiles_k} * (part + 1) / parts);
  const auto load = [&](int tile) {
    if (tile < end) {
      unsigned char* stage = stages + tile % kStages * kStageBytes;
      Left::load(stage, top, tile * kDeep, any,
                 [&](int m, int k) { return m < m_count && k < k_count ? a(group, m, k) : nullptr; });
      Right::load(stage + Left::kBytes, side, tile * kDeep, any,
                  [&](int n, int k) { return n < n_count && k < k_count ? b(group, n, k) : nullptr; });
    }
    commit_copies();  // one group per tile, even an absent one, so that waiting counts tiles
  };
  WarpSums sums{};
  MLX_UNROLL
  for (int i = 0; i < kStages - 1; ++i) load(begin + i);
  for (int tile = begin; tile < end; ++tile) {
    wait_copies<kStages - 2>();
    __syncthreads();  // also: all are done with the stage that is loaded next
    load(tile + kStages - 1);
    const unsigned char* stage = stages + tile % kStages * kStageBytes;
    multiply<kType, kAlongA, kAlongB>(sums, stage, stage + Left::kBytes);
  }
  if constexpr (requires { store.beside(0, 0, 0); }) {
    store_beside(sums, stages, BlockTile{top, side, m_count, n_count, group, part}, store);
  } else {
    const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
    const int row = top + warp % kWarpsM * kWarpM + lane / 4, column = side + warp / kWarpsM * kWarpN + lane % 4 * 2;
    MLX_UNROLL
    for (int i = 0; i < kWarpM / 16; ++i) MLX_UNROLL
    for (int j = 0; j < kWarpN / 8; ++j) MLX_UNROLL
    for (int at = 0; at < 4; ++at) {
      const int m = row + i * 16 + at / 2 * 8, n = column + j * 8 + at % 2;
      if (m < m_count && n < n_count) store(group, part, m, n, sums.c[i][j].c[at]);
    }
  }
}

// The number of parts of k for a product of this type, for weight gradients with few results.
template <MmaType kType>
std::int64_t tensor_parts_of_k(const ProductSize& size) {
  constexpr std::int64_t kWanted = 512, kLeastTiles = 8;
  const std::int64_t tiles = divide_up(size.m, kTileM) * divide_up(size.n, kTileN) * size.groups;
  if (tiles == 0) return 1;
  const std::int64_t deep = divide_up(size.k, kDepthBytes / kElementBytes<kType>);
  return std::clamp<std::int64_t>(std::min(kWanted / tiles, deep / kLeastTiles), 1, 256);
}

// Indices are ints in the kernel.
inline bool tensor_sized(const ProductSize& size) {
  constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 1024;
  return size.m < kMost && size.n < kMost && size.k < kMost && size.groups < 65536 && size.parts < 65536;
}

template <MmaType kType, bool kAlongA, bool kAlongB, typename A, typename B, typename Store>
void tensor_product(const Args& args, const ProductSize& size, const void* any, A a, B b, Store store) {
  constexpr int kShared =
      kStages * (ProductTile<kType, kAlongA, kTileM>::kBytes + ProductTile<kType, kAlongB, kTileN>::kBytes);
  static_assert(kShared <= kMostShared && kTileM * kSumPitch * int{sizeof(float)} <= kShared);
  const std::int64_t tiles = divide_up(size.m, kTileM) * divide_up(size.n, kTileN);
  launch_with(args, kShared, tensor_product_kernel<kType, kAlongA, kAlongB, A, B, Store>,
              blocks(tiles, size.parts, size.groups), kThreads, size, any, a, b, store);
}

// The type that factors are addressed as; only their addresses are used.
template <MmaType kType>
using FactorOf = std::conditional_t<kType == MmaType::kTF32, float, std::uint16_t>;

template <MmaType kType>
bool whole_chunks(std::int64_t elements) {
  return elements % (kChunk / kElementBytes<kType>) == 0;
}

// Weights as factors: as stored if they have the activations' type, else copied to the workspace. `count`: the number
// of elements.
inline Recast recast_weights(const Geometry& g, std::int64_t count) {
  return {count, g.w_type, g.x_type};
}
template <MmaType kType>
const FactorOf<kType>* weight_factors(const State& s, const Args& args, std::int64_t count) {
  const void* w = recast_to(args, recast_weights(s.g, count), args.inputs[1], args.workspace);
  return static_cast<const FactorOf<kType>*>(w);
}

// Calls body<type>() with the type in which tensor cores read the problem's factors. False if they do not support it.
template <typename Body>
bool with_mma_type(const Problem& problem, Body body) {
  if (problem.input_count < 1) return false;
  switch (problem.inputs[0].dtype) {
    case DType::kBF16:
      return body.template operator()<MmaType::kBF16>();
    case DType::kF16:
      return body.template operator()<MmaType::kF16>();
    case DType::kF32:
      return problem.attrs.tf32 && body.template operator()<MmaType::kTF32>();
    default:
      return false;
  }
}

}  // namespace mlx::kernels::cuda
