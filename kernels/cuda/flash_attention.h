// Shared by the attention kernels on tensor cores (flash_attention.cu, flash_attention_backward.cu): tiles of rows in
// shared memory, how they are loaded and stored, and the two products that everything is built from.
//
// A block has kFlashWarps warps, for consecutive rows of one head. A warp owns kM times 16 of these rows (the rows of
// the fragments in ptx.h). Together the warps go through tiles of the other side's rows, which are the columns. Scores
// and their gradients stay in registers: the C fragments of one product, two tiles of eight columns at a time, are the
// A fragments of the next.
#pragma once

#include <initializer_list>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/ptx.h"

namespace mlx::kernels::cuda {

inline constexpr int kFlashWarps = 4, kFlashThreads = kFlashWarps * kWarp;
inline constexpr float kLog2E = 1.4426950408889634f;

// The sizes that all tensors of one operation share.
struct FlashSizes {
  int time, heads, kv_heads, head;  // head: elements in a row of one head
  std::int64_t width, dim;          // elements between rows of qkv, and between rows of y
  bool aligned;                     // every row of every head begins and ends at a multiple of 16 bytes
};

inline FlashSizes flash_sizes(const Geometry& g, std::initializer_list<const void*> tensors) {
  FlashSizes s{static_cast<int>(g.time),
               static_cast<int>(g.heads),
               static_cast<int>(g.kv_heads),
               static_cast<int>(g.head),
               g.width,
               g.dim,
               g.head % 8 == 0};
  for (const void* tensor : tensors) s.aligned = s.aligned && reinterpret_cast<std::uintptr_t>(tensor) % 16 == 0;
  return s;
}

// Calls launch.operator()<kType, kHead>() with the type of qkv and the smallest tile width that holds a head.
template <MmaType kType, typename Launch>
void for_head_of(const Geometry& g, const Launch& launch) {
  if (g.head <= 32) return launch.template operator()<kType, 32>();
  if (g.head <= 64) return launch.template operator()<kType, 64>();
  if (g.head <= 96) return launch.template operator()<kType, 96>();
  launch.template operator()<kType, 128>();
}
template <typename Launch>
void for_head(const Geometry& g, const Launch& launch) {
  if (g.x_type == DType::kBF16) return for_head_of<MmaType::kBF16>(g, launch);
  for_head_of<MmaType::kF16>(g, launch);
}

void run_flash_backward(const void* state, const Args& args, int phase, int slice);
std::size_t flash_backward_bytes(const Geometry& g);  // workspace

// The rows of one head in memory: row i begins at data + i · stride.
template <typename T>
struct FlashRows {
  T* data;
  std::int64_t stride;
};

// The rows of one query head, or of the keys or values of one group, of one sequence.
template <typename T>
__device__ FlashRows<T> queries_of(const FlashSizes& s, T* qkv, std::int64_t batch, int head) {
  return {qkv + batch * s.time * s.width + std::int64_t{head} * s.head, s.width};
}
template <typename T>
__device__ FlashRows<T> keys_of(const FlashSizes& s, T* qkv, std::int64_t batch, int group) {
  return {qkv + batch * s.time * s.width + s.dim + std::int64_t{group} * s.head, s.width};
}
template <typename T>
__device__ FlashRows<T> values_of(const FlashSizes& s, T* qkv, std::int64_t batch, int group) {
  return keys_of(s, qkv, batch, s.kv_heads + group);
}
template <typename T>
__device__ FlashRows<T> outputs_of(const FlashSizes& s, T* y, std::int64_t batch, int head) {
  return {y + batch * s.time * s.dim + std::int64_t{head} * s.head, s.dim};
}

// Eight elements, of which `count` exist. One access of 16 bytes if the memory is aligned.
struct alignas(16) Unit {
  std::uint16_t bits[8];
};
__device__ inline Unit load_unit(const std::uint16_t* from, int count, bool aligned) {
  if (aligned && count >= 8) return *reinterpret_cast<const Unit*>(from);
  Unit unit{};
  MLX_UNROLL
  for (int i = 0; i < 8; ++i)
    if (i < count) unit.bits[i] = from[i];
  return unit;
}
__device__ inline void store_unit(std::uint16_t* to, const Unit& unit, int count, bool aligned) {
  if (aligned && count >= 8) {
    *reinterpret_cast<Unit*>(to) = unit;
    return;
  }
  MLX_UNROLL
  for (int i = 0; i < 8; ++i)
    if (i < count) to[i] = unit.bits[i];
}

// Rows of kHead 16-bit elements in shared memory. The 16-byte units of a row are permuted, so that the same unit of
// eight consecutive rows, which ldmatrix reads at once, comes from all 32 banks.
template <int kHead>
struct Tile {
  static_assert(kHead % 32 == 0);
  static constexpr int kUnits = kHead / 8;
  static constexpr int bytes(int rows) { return rows * kUnits * 16; }
  // The offset of a unit, in bytes.
  __device__ static int place(int row, int unit) {
    const int turn = kUnits % 8 == 0 ? row % 8 : row / 2 % 4;
    return (row * kUnits + (unit ^ turn)) * 16;
  }
};

// Begins to copy kRows rows from `first` on into a tile, with the whole block. Rows and elements that do not exist
// become zeros. A thread copies one unit of every kStride-th row.
template <int kHead, int kRows>
__device__ void load_tile(unsigned char* tile, const FlashRows<const std::uint16_t>& from, int first,
                          const FlashSizes& s) {
  constexpr int kUnits = Tile<kHead>::kUnits, kStride = std::min(kRows, kHead == 96 ? 8 : kFlashThreads / kUnits);
  static_assert(kRows % kStride == 0 && kStride % 8 == 0 && kStride * kUnits <= kFlashThreads);
  const int row = static_cast<int>(threadIdx.x) / kUnits, unit = static_cast<int>(threadIdx.x) % kUnits;
  if (row >= kStride) return;
  const int count = s.head - 8 * unit, rows = count > 0 ? s.time - first - row : 0;  // the number that exist
  const std::uint16_t* at = from.data + (first + row) * from.stride + 8 * unit;
  unsigned char* to = tile + Tile<kHead>::place(row, unit);
  if (s.aligned) {
    MLX_UNROLL
    for (int i = 0; i < kRows; i += kStride) {
      copy_async(to + Tile<kHead>::bytes(i), i < rows ? at : from.data, i < rows);
      at += kStride * from.stride;
    }
    return;
  }
  MLX_NO_UNROLL
  for (int i = 0; i < kRows; i += kStride) {
    *reinterpret_cast<Unit*>(to + Tile<kHead>::bytes(i)) = load_unit(at, i < rows ? count : 0, false);
    at += kStride * from.stride;
  }
}

// Writes a warp's sums to rows `first` … of `to`, as far as they exist. The sums pass through the warp's own rows of a
// tile, from `own` on, which no other warp may be using.
template <MmaType kType, int kHead, int kM>
__device__ void store_rows(unsigned char* tile, int own, const FragmentC (&sums)[kM][kHead / 8],
                           const FlashRows<std::uint16_t>& to, int first, const FlashSizes& s) {
  using T = Tile<kHead>;
  const int lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4;
  __syncwarp();
  MLX_UNROLL
  for (int i = 0; i < kM * kHead / 8; ++i) {
    const int m = i / (kHead / 8), n = i % (kHead / 8);
    unsigned char *upper = tile + T::place(own + 16 * m + g, n), *lower = tile + T::place(own + 16 * m + 8 + g, n);
    *reinterpret_cast<std::uint32_t*>(upper + 4 * t) = pack_as<kType>(sums[m][n].c[0], sums[m][n].c[1]);
    *reinterpret_cast<std::uint32_t*>(lower + 4 * t) = pack_as<kType>(sums[m][n].c[2], sums[m][n].c[3]);
  }
  __syncwarp();
  for (int i = lane; i < 16 * kM * T::kUnits; i += kWarp) {
    const int row = i / T::kUnits, unit = i % T::kUnits, count = s.head - 8 * unit;
    if (first + row >= s.time || count <= 0) continue;
    store_unit(to.data + (first + row) * to.stride + 8 * unit,
               *reinterpret_cast<const Unit*>(tile + T::place(own + row, unit)), count, s.aligned);
  }
}

// The A fragment of 16 rows from `row` on and of elements 16 k ….
template <int kHead>
__device__ FragmentA load_a(const unsigned char* tile, int row, int k) {
  const int lane = threadIdx.x % kWarp;
  FragmentA a;
  load_matrices(a.a, tile + Tile<kHead>::place(row + lane % 16, 2 * k + lane / 16));
  return a;
}

// The A fragments of a warp's kM · 16 rows of a tile, from `row` on. They are kept in registers after hold(), or read
// whenever they are needed.
template <int kHead, int kM, bool kHeld>
struct RowFragments {
  const unsigned char* tile;
  int row;
  FragmentA held[kHeld ? kHead / 16 : 1][kM];

  __device__ void hold() {
    MLX_UNROLL
    for (int i = 0; i < kHead / 16 * kM; ++i) held[i / kM][i % kM] = load_a<kHead>(tile, row + 16 * (i % kM), i / kM);
  }
  __device__ FragmentA operator()(int k, int m) const {
    if constexpr (kHeld)
      return held[k][m];
    else
      return load_a<kHead>(tile, row + 16 * m, k);
  }
};

// sums[m][n] = rows · columnsᵀ. rows(k, m) is fragment m of the rows, for elements 16 k …; columns 8 n … are those rows
// of a tile.
template <MmaType kType, int kHead, int kM, int kN, typename Rows>
__device__ void multiply(FragmentC (&sums)[kM][kN], const Rows& rows, const unsigned char* columns) {
  const int lane = threadIdx.x % kWarp;
  MLX_UNROLL
  for (int i = 0; i < kM * kN; ++i) sums[i / kN][i % kN] = {};
  MLX_UNROLL
  for (int k = 0; k < kHead / 16; ++k) {
    FragmentA a[kM];
    MLX_UNROLL
    for (int m = 0; m < kM; ++m) a[m] = rows(k, m);
    MLX_UNROLL
    for (int n = 0; n < kN; n += 2) {
      std::uint32_t b[4];  // of columns 8 n …, then of the next eight
      load_matrices(b, columns + Tile<kHead>::place(8 * n + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2));
      MLX_UNROLL
      for (int m = 0; m < kM; ++m) {
        mma<kType>(sums[m][n], a[m], {b[0], b[1]});
        mma<kType>(sums[m][n + 1], a[m], {b[2], b[3]});
      }
    }
  }
}

// sums[m][·] += weights[m] · the 8 kN rows of a tile. The weights are rounded to kType.
template <MmaType kType, int kHead, int kM, int kN>
__device__ void accumulate(FragmentC (&sums)[kM][kHead / 8], const FragmentC (&weights)[kM][kN],
                           const unsigned char* tile) {
  const int lane = threadIdx.x % kWarp;
  MLX_UNROLL
  for (int k = 0; k < kN / 2; ++k) {
    FragmentA a[kM];
    MLX_UNROLL
    for (int m = 0; m < kM; ++m) {
      const FragmentC &left = weights[m][2 * k], &right = weights[m][2 * k + 1];
      a[m] = {pack_as<kType>(left.c[0], left.c[1]), pack_as<kType>(left.c[2], left.c[3]),
              pack_as<kType>(right.c[0], right.c[1]), pack_as<kType>(right.c[2], right.c[3])};
    }
    MLX_UNROLL
    for (int n = 0; n < kHead / 8; n += 2) {
      std::uint32_t b[4];
      load_matrices_transposed(b, tile + Tile<kHead>::place(16 * k + lane % 16, n + lane / 16));
      MLX_UNROLL
      for (int m = 0; m < kM; ++m) {
        mma<kType>(sums[m][n], a[m], {b[0], b[1]});
        mma<kType>(sums[m][n + 1], a[m], {b[2], b[3]});
      }
    }
  }
}

template <int kM, int kN>
__device__ void scale_sums(FragmentC (&sums)[kM][kN], float factor) {
  MLX_UNROLL
  for (int i = 0; i < 4 * kM * kN; ++i) sums[i / (4 * kN)][i / 4 % kN].c[i % 4] *= factor;
}

// The row of element c of fragment m, and the column of element c of fragment n, within a warp's rows and a tile's
// columns.
__device__ inline int row_in(int m, int c) {
  return 16 * m + 8 * (c / 2) + static_cast<int>(threadIdx.x) % kWarp / 4;
}
__device__ inline int column_in(int n, int c) {
  return 8 * n + 2 * (static_cast<int>(threadIdx.x) % 4) + c % 2;
}
// Runs body(m, n, c) for each element of a warp's scores that the thread holds.
template <int kM, int kN, typename Body>
__device__ void each_score(const Body& body) {
  MLX_UNROLL
  for (int i = 0; i < 4 * kM * kN; ++i) body(i / 4 % kM, i / (4 * kM), i % 4);
}

}  // namespace mlx::kernels::cuda
