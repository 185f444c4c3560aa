// A cache of keys and values in eight bits (op_list.h, kAttentionCached): of each head its numbers as integers, then
// the scales in f16 of groups of 32 of them. Used by kernels and the graph. No std:: functions, so that code of any
// instruction set can use it.
#pragma once

#include <cstdint>

#include "kernels/half.h"

namespace mlx::kernels {

inline constexpr std::int64_t kCacheGroup = 32;

// Bytes of a head of `size` numbers.
static constexpr std::int64_t cache_head_bytes(std::int64_t size) {
  return size + (size + kCacheGroup - 1) / kCacheGroup * 2;
}

// Where the scale of number i stands in a head.
static constexpr std::int64_t cache_scale_at(std::int64_t size, std::int64_t i) {
  return size + i / kCacheGroup * 2;
}

// The scale of a group whose largest magnitude is `most`. NaN if a number is not finite or f16 has no such scale.
static constexpr F16 cache_scale(float most, bool finite) {
  constexpr float kMost = 65504.0f * 127.0f;
  return finite && most <= kMost ? to_f16(most / 127.0f) : F16{0x7e00};
}
// What numbers are multiplied by before they are rounded to even and cut to -127 … 127; 0 gives integers 0.
static constexpr float cache_inverse(F16 scale) {
  const float s = widen(scale);
  return s > 0.0f ? 1.0f / s : 0.0f;
}

}  // namespace mlx::kernels
