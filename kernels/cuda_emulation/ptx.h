// kernels/cuda/ptx.h on the host. Fragments are assembled from all lanes of a warp and multiplied in order of k, in
// f32. Copies happen when they are waited for, so that a missing wait gives wrong results. Included only by
// kernels/cuda/ptx.h.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/cuda/ptx.h"

namespace mlx::kernels::cuda {

// Element `i` of a register: two of 16 bits, or one of tf32.
template <MmaType kType>
float element_of(std::uint32_t bits, unsigned i) {
  const auto half = static_cast<std::uint16_t>(bits >> (16 * i));
  if constexpr (kType == MmaType::kBF16) return widen(BF16{half});
  if constexpr (kType == MmaType::kF16) return widen(F16{half});
  return std::bit_cast<float>(bits & 0xffffe000u);
}

template <MmaType kType>
void mma(FragmentC& c, const FragmentA& a, const FragmentB& b) {
  constexpr unsigned kEach = kType == MmaType::kTF32 ? 1 : 2;  // elements per register
  const unsigned lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  struct Both {
    FragmentA a;
    FragmentB b;
  } own{a, b};
  const mlx::emulation::Given given = mlx::emulation::give(&own, sizeof own);
  const auto of = [&](unsigned row, unsigned column_lane) {
    return static_cast<const Both*>(given.of_lane(row * 4 + column_lane));
  };
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned column = 2 * t + i % 2;
    for (unsigned half = 0; half < 2; ++half)  // of k
      for (unsigned from = 0; from < 4; ++from)
        for (unsigned k = 0; k < kEach; ++k)
          c.c[i] += element_of<kType>(of(g, from)->a.a[i / 2 + 2 * half], k) *
                    element_of<kType>(of(column, from)->b.b[half], k);
  }
}

inline void load_matrices(std::uint32_t (&out)[4], const void* row) {
  const unsigned lane = threadIdx.x % 32;
  const mlx::emulation::Given given = mlx::emulation::give(&row, sizeof row);
  for (unsigned j = 0; j < 4; ++j) {
    const unsigned char* of_row = *static_cast<const unsigned char* const*>(given.of_lane(8 * j + lane / 4));
    std::memcpy(&out[j], of_row + 4 * (lane % 4), 4);
  }
}
inline void load_matrices_transposed(std::uint32_t (&out)[4], const void* row) {
  const unsigned lane = threadIdx.x % 32;
  const mlx::emulation::Given given = mlx::emulation::give(&row, sizeof row);
  for (unsigned j = 0; j < 4; ++j)
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned from = 8 * j + 2 * (lane % 4) + i;
      const unsigned char* of_row = *static_cast<const unsigned char* const*>(given.of_lane(from));
      std::memcpy(reinterpret_cast<unsigned char*>(&out[j]) + 2 * i, of_row + 2 * (lane / 4), 2);
    }
}

inline void copy_async(void* shared, const void* from, bool inside) {
  mlx::emulation::copy_later(shared, from, inside ? 16 : 0, inside ? 0 : 16);
}
inline void commit_copies() {
  mlx::emulation::commit_copies();
}
template <int kPending>
void wait_copies() {
  mlx::emulation::wait_copies(kPending);
}

inline std::uint32_t tf32_bits(float x) {
  return std::bit_cast<std::uint32_t>(to_tf32(x));
}

template <MmaType kType>
std::uint32_t pack_as(float low, float high) {
  static_assert(kType != MmaType::kTF32);
  const auto bits = [](float x) { return std::uint32_t{kType == MmaType::kBF16 ? to_bf16(x).bits : to_f16(x).bits}; };
  return bits(low) | bits(high) << 16;
}

inline float exp2_approximate(float x) {
  const float y = std::exp2(x);
  return y < 0x1p-126f ? 0.0f : y;  // NaN stays NaN
}

inline unsigned char* block_memory() {
  return static_cast<unsigned char*>(mlx::emulation::block_memory());
}

}  // namespace mlx::kernels::cuda
