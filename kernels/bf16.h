// bf16 in plain code: the upper half of an f32, rounded to nearest even; NaN stays NaN. What narrows in any kernel
// gives these bits, but that products may take denormals for zero, as AVX512_BF16 does. Used by kernels and tests; no
// std:: function, so that code of any instruction set may use it, constexpr, so that CUDA's may.
#pragma once

#include <cstdint>

namespace mlx::kernels {

struct BF16 {
  std::uint16_t bits;
};

static constexpr float widen(BF16 x) {
  return __builtin_bit_cast(float, std::uint32_t{x.bits} << 16);
}
static constexpr float widen(float x) {
  return x;
}
static constexpr BF16 narrow(float x) {
  const auto bits = __builtin_bit_cast(std::uint32_t, x);
  if (x != x) return {static_cast<std::uint16_t>(bits >> 16 | 0x40u)};  // quiet, so that no NaN becomes infinity
  return {static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}

}  // namespace mlx::kernels
