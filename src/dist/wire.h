// The type in which elements of a sum go to other ranks.
#pragma once

#include <bit>
#include <cstdint>

namespace mlx::dist {

enum class Wire { kF32, kBF16 };

// To bf16, the nearest, of two the even one.
inline std::uint16_t to_wire(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);  // NaN stays one
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

inline float from_wire(std::uint16_t x) {
  return std::bit_cast<float>(std::uint32_t{x} << 16);
}

inline void pack(std::uint16_t* to, const float* from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = to_wire(from[i]);
}

inline void unpack(float* to, const std::uint16_t* from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = from_wire(from[i]);
}

}  // namespace mlx::dist
