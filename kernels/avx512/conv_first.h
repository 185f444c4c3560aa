// What the convolutions for images of up to four channels share: output channels stand in the lanes, and each image is
// copied once with its padding, so that no tap needs a test. Internal linkage throughout (avx512.h says why).
#pragma once

#include "kernels/avx512/lanes.h"

namespace mlx::kernels::avx512 {

inline constexpr std::int64_t kMostChannels = 4, kMostKernel = 11;

static inline bool is_first_conv(const Geometry& g) {
  return g.c <= kMostChannels && g.groups == 1 && g.kh <= kMostKernel && g.kw <= kMostKernel;
}
static inline std::int64_t padded_channels(const Geometry& g) {
  return (g.o + 15) / 16 * 16;
}
static inline std::int64_t taps(const Geometry& g) {
  return g.kh * g.kw * g.c;
}
// The part of the padded image that windows reach, in elements.
static inline std::int64_t reach_h(const Geometry& g) {
  return g.oh > 0 ? (g.oh - 1) * g.sh + g.kh : 0;
}
static inline std::int64_t reach_w(const Geometry& g) {
  return g.ow > 0 ? (g.ow - 1) * g.sw + g.kw : 0;
}
static inline std::int64_t row_size(const Geometry& g) {
  return reach_w(g) * g.c;
}

// Where the plain image's rows land in the padded one. `copy(from, to, elements)` is called for each of them.
template <typename T, typename Copy>
static inline void copy_rows(const Geometry& g, const T* x, T* image, Copy copy) {
  const std::int64_t below = reach_h(g) - g.pt, right = reach_w(g) - g.pl;
  const std::int64_t high = g.h < below ? g.h : below, wide = g.w < right ? g.w : right;
  for (std::int64_t h = 0; h < high; ++h)
    copy(x + h * g.w * g.c, image + (h + g.pt) * row_size(g) + g.pl * g.c, wide * g.c);
}

static inline std::int64_t image_floats(const Geometry& g) {
  return (reach_h(g) * row_size(g) + 15) / 16 * 16;
}
static inline void clear_image(const Geometry& g, float* image) {
  for (std::int64_t i = 0; i < image_floats(g); i += 16) _mm512_storeu_ps(image + i, _mm512_setzero_ps());
}
// Into an image that was cleared: the padding is left alone.
static inline void copy_image(const Geometry& g, const float* x, float* image) {
  copy_rows(g, x, image, [](const float* from, float* to, std::int64_t count) {
    for (std::int64_t i = 0; i < count; i += 16) {
      const __mmask16 mask = lanes(count - i);
      _mm512_mask_storeu_ps(to + i, mask, _mm512_maskz_loadu_ps(mask, from + i));
    }
  });
}

}  // namespace mlx::kernels::avx512
