// What happens to an image between its bytes and a network: the layout of two inputs of kAugment. Used by its kernels,
// by its shape rule and by who feeds it (src/data).
#pragma once

#include <cstdint>

namespace mlx::kernels {

// One row of the input "changes" s32[N,6]. The image is mirrored left to right where `flip` is not 0, then moved down
// and right (up and left where negative), what is moved in being of value 0; then the square of `erase` × `erase`
// pixels with its corner at row `top`, column `left` is set to 0.0, as far as it lies inside. Any numbers have a
// meaning: an image that is moved out is empty, an `erase` below 1 is none.
struct ImageChange {
  std::int32_t down = 0, right = 0, flip = 0;  // pixels, pixels, whether
  std::int32_t erase = 0, top = 0, left = 0;   // pixels
  bool operator==(const ImageChange&) const = default;
};
inline constexpr std::int64_t kChangeFields = sizeof(ImageChange) / sizeof(std::int32_t);

// The input "table" f32[C,kPixelValues]: what each value of a byte becomes, by channel.
inline constexpr std::int64_t kPixelValues = 256;

// Elements of an image, at most.
inline constexpr std::int64_t kMostImageElements = std::int64_t{1} << 30;

}  // namespace mlx::kernels
