// Rounding a group of x to eight bits, for products with weights of few bits (op_list.h, kLinearGroups). Used by
// linear_groups.cpp and linear_blocks.cpp.
#pragma once

#include "kernels/simd/lanes.h"

namespace mlx::kernels::MLX_ISA {
namespace {

constexpr float kSmallest = 0x1p-100f;  // all of a group below it count as 0

// The scale is NaN if one of the group is not finite.
struct Rounding {
  float scale, inverse;
};
inline Rounding rounding_of(const float* x, std::int64_t count) {
  Floats largest = zeros(), poison = zeros();  // NaN if one of x is not finite
  for (std::int64_t i = 0; i < count; i += 16) {
    const Floats value = load(x + i);
    largest = max(abs(value), largest);
    poison = poison + (value - value);
  }
  const float most = lane_max(largest);
  return {most / 127.0f + lane_sum(poison), most >= kSmallest ? 127.0f / most : 0.0f};
}
inline Ints round_sixteen(const float* x, float inverse, std::int8_t* to) {
  const Ints value = to_integers(load(x) * broadcast(inverse));
  store_narrow(to, value, 16);
  return value;
}

inline std::uint32_t sum_of_lanes(Ints x) {
  std::int32_t lane[16];
  store(lane, x);
  std::uint32_t sum = 0;  // unsigned: of numbers that are not finite it may overflow, and is not used
  for (const std::int32_t value : lane) sum += static_cast<std::uint32_t>(value);
  return sum;
}

// Four bytes of x in every lane.
inline Ints four_of(const std::int8_t* from) {
  std::int32_t terms;
  __builtin_memcpy(&terms, from, sizeof terms);
  return integers(terms);
}

}  // namespace
}  // namespace mlx::kernels::MLX_ISA
