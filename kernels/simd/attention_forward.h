// The scratch of attention's forward pass, and what becomes of its sums. Used by attention.cpp and
// bidirectional_attention.cpp only.
#pragma once

#include "kernels/simd/attention_tile.h"

namespace mlx::kernels::MLX_ISA {
namespace {

// One slice's scratch; see floats_of. `widened`: room for a block of keys and one of values in f32, if `widens`.
struct Scratch {
  float *x, *scores, *sums, *max, *total, *factor, *widened;
};
inline std::int64_t floats_of(std::int64_t size, bool widens = false) {
  return 2 * kTile * ((size + 15) / 16 * 16) + kKeys * kTile + 3 * kTile + (widens ? 2 * kKeys * size : 0);
}
inline Scratch scratch_of(void* workspace, int slice, std::int64_t size, bool widens = false) {
  const std::int64_t tile = kTile * ((size + 15) / 16 * 16);
  float* x = static_cast<float*>(workspace) + slice * floats_of(size, widens);
  float *scores = x + tile, *sums = scores + kKeys * kTile, *max = sums + tile;
  return {x, scores, sums, max, max + kTile, max + 2 * kTile, max + 3 * kTile};
}

// Sums of values, which are `size` wide: multiplied by `factor`, or divided by `total` and written to y.
inline void shrink(float* sums, float factor, std::int64_t size) {
  by_vectors(0, size,
             [&](std::int64_t i, auto mask) { store(sums + i, broadcast(factor) * load(sums + i, mask), mask); });
}

inline void divide(const float* sums, float total, std::int64_t size, float* y) {
  by_vectors(0, size, [&](std::int64_t i, auto mask) { store(y + i, load(sums + i, mask) / broadcast(total), mask); });
}

}  // namespace
}  // namespace mlx::kernels::MLX_ISA
