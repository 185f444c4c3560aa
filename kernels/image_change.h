// The changes to an image between its bytes and the network: the layout of two inputs of kAugment. Used by its kernels,
// by its shape rule and by the code that feeds it (src/data).
#pragma once

#include <cstdint>

namespace mlx::kernels {

// One row of the input "changes" s32[N,6]. If `flip` is not 0, the image is mirrored left to right. Then it is shifted
// down and right (up and left if negative), and pixels that are shifted in are 0. Then a square of `erase` × `erase`
// pixels with its corner at row `top`, column `left` is set to 0.0, clipped to the image. Any numbers are valid: an
// image that is shifted out completely is empty, and an `erase` below 1 erases nothing.
struct ImageChange {
  std::int32_t down = 0, right = 0, flip = 0;  // pixels, pixels, whether
  std::int32_t erase = 0, top = 0, left = 0;   // pixels
  bool operator==(const ImageChange&) const = default;
};
inline constexpr std::int64_t kChangeFields = sizeof(ImageChange) / sizeof(std::int32_t);

// The input "table" f32[C,kPixelValues]: the value that each byte is mapped to, by channel.
inline constexpr std::int64_t kPixelValues = 256;

// Elements of an image, at most.
inline constexpr std::int64_t kMostImageElements = std::int64_t{1} << 30;

}  // namespace mlx::kernels
