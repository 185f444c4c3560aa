// Adjacent elements of f32, bf16 or f16 that are loaded and stored together, up to 16 bytes at once. Used by
// memory-bound kernels.
#pragma once

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/ptx.h"

namespace mlx::kernels::cuda {

template <typename T, int kCount>
struct alignas(sizeof(T) * kCount < 16 ? sizeof(T) * kCount : 16) Pack {
  T at[kCount];
};

__device__ inline float widened(float x) {
  return x;
}
template <typename Half>
__device__ float widened(Half x) {
  return from_half(x);
}
__device__ inline void narrow(float x, float* to) {
  *to = x;
}
template <typename Half>
__device__ void narrow(float x, Half* to) {
  to_half(x, to);
}

// Copies kCount elements between `from`, aligned as their Pack is, and registers.
template <int kCount, typename T>
__device__ void load_pack(const T* from, float* x) {
  const auto pack = *reinterpret_cast<const Pack<T, kCount>*>(from);
  MLX_UNROLL
  for (int i = 0; i < kCount; ++i) x[i] = widened(pack.at[i]);
}
template <int kCount, typename T>
__device__ void store_pack(const float* x, T* to) {
  Pack<T, kCount> pack;
  MLX_UNROLL
  for (int i = 0; i < kCount; ++i) narrow(x[i], &pack.at[i]);
  *reinterpret_cast<Pack<T, kCount>*>(to) = pack;
}

}  // namespace mlx::kernels::cuda
