// Shared by the convolutions for images of up to four channels. Output channels are in the lanes. Each image is copied
// once with its padding, so that taps need no bounds checks. Internal linkage throughout (simd.h says why).
#pragma once

#include "kernels/simd/lanes.h"

namespace mlx::kernels::MLX_ISA {
namespace {

inline bool is_first_conv(const Geometry& g) {
  return g.c <= kFewChannels && g.groups == 1 && g.kh <= kMostConvKernel && g.kw <= kMostConvKernel;
}
inline std::int64_t padded_channels(const Geometry& g) {
  return (g.o + 15) / 16 * 16;
}
inline std::int64_t taps(const Geometry& g) {
  return g.kh * g.kw * g.c;
}
// The part of the padded image that windows reach, in elements.
inline std::int64_t reach_h(const Geometry& g) {
  return g.oh > 0 ? (g.oh - 1) * g.sh + g.kh : 0;
}
inline std::int64_t reach_w(const Geometry& g) {
  return g.ow > 0 ? (g.ow - 1) * g.sw + g.kw : 0;
}
inline std::int64_t row_size(const Geometry& g) {
  return reach_w(g) * g.c;
}

// Calls `copy(from, to, elements)` for each row of the plain image and its place in the padded one.
template <typename T, typename Copy>
inline void copy_rows(const Geometry& g, const T* x, T* image, Copy copy) {
  const std::int64_t below = reach_h(g) - g.pt, right = reach_w(g) - g.pl;
  const std::int64_t high = g.h < below ? g.h : below, wide = g.w < right ? g.w : right;
  for (std::int64_t h = 0; h < high; ++h)
    copy(x + h * g.w * g.c, image + (h + g.pt) * row_size(g) + g.pl * g.c, wide * g.c);
}

inline std::int64_t image_floats(const Geometry& g) {
  return (reach_h(g) * row_size(g) + 15) / 16 * 16;
}
inline void clear_image(const Geometry& g, float* image) {
  for (std::int64_t i = 0; i < image_floats(g); i += 16) store(image + i, zeros());
}
// `image` was cleared before; the padding is not written.
inline void copy_image(const Geometry& g, const float* x, float* image) {
  copy_rows(g, x, image, [](const float* from, float* to, std::int64_t count) {
    by_vectors(0, count, [&](std::int64_t i, auto mask) { store(to + i, load(from + i, mask), mask); });
  });
}

}  // namespace
}  // namespace mlx::kernels::MLX_ISA
