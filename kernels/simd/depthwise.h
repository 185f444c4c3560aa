// Shared by the depthwise 3x3 convolutions. Each channel is a separate image; 16 channels are in the lanes of a vector,
// and one row of pixels is computed at a time. Internal linkage throughout (simd.h says why).
#pragma once

#include "kernels/simd/lanes.h"

namespace mlx::kernels::MLX_ISA {
namespace {

constexpr std::int64_t kSide = 3, kTaps = kSide * kSide;

inline bool is_depthwise(const Geometry& g) {
  return g.groups > 1 && g.groups == g.c && g.c == g.o && g.kh == kSide && g.kw == kSide && g.sh == g.sw && g.sh <= 2 &&
         g.pt < kSide && g.pl < kSide;
}
inline std::int64_t padded_channels(const Geometry& g) {
  return (g.c + 15) / 16 * 16;
}

template <bool Tail>
inline Floats load(const float* from, Mask mask) {
  if constexpr (Tail) return load(from, mask);
  return load(from);
}
template <bool Tail>
inline void store(float* to, Floats x, Mask mask) {
  if constexpr (Tail)
    store(to, x, mask);
  else
    store(to, x);
}

// Along one dimension, with windows at i * stride - before: those of `count` windows that are entirely within `size`.
inline Range inner(std::int64_t count, std::int64_t size, std::int64_t stride, std::int64_t before) {
  const std::int64_t last = size - kSide + before, begin = (before + stride - 1) / stride;
  const std::int64_t end = last < 0 ? 0 : last / stride + 1;
  const Range range{begin < count ? begin : count, end < count ? end : count};
  return {range.begin, range.end > range.begin ? range.end : range.begin};
}
// The taps [begin, end) of the window at `first` that are within `size`.
inline Range taps_within(std::int64_t first, std::int64_t size) {
  const std::int64_t begin = first < 0 ? -first : 0, end = size - first < kSide ? size - first : kSide;
  return {begin, end > begin ? end : begin};
}

}  // namespace
}  // namespace mlx::kernels::MLX_ISA
