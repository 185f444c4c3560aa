// Images for tests that need no particular ones: random-looking bytes, labels in order.
#pragma once

#include "data/kinds/images.h"

namespace mlx::data {

inline Images made_up(std::int64_t count, std::int64_t height, std::int64_t width, std::int64_t channels) {
  Images out;
  out.count = count, out.height = height, out.width = width, out.channels = channels, out.classes = 10;
  out.pixels.resize(static_cast<std::size_t>(count * height * width * channels));
  for (std::size_t i = 0; i < out.pixels.size(); ++i) out.pixels[i] = static_cast<std::uint8_t>(i * 7919 >> 3);
  for (std::int64_t i = 0; i < count; ++i) out.labels.push_back(static_cast<std::int32_t>(i % 1000));
  return out;
}

}  // namespace mlx::data
