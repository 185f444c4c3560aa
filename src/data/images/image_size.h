// The size of an image.
#pragma once

#include <cstdint>

namespace mlx::data {

struct ImageSize {
  std::int64_t height = 0, width = 0, channels = 0;
  std::int64_t pixels() const { return height * width; }
  std::int64_t elements() const { return pixels() * channels; }
};

}  // namespace mlx::data
