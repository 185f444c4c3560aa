// Images for tests that need no particular ones: random-looking bytes, labels in order.
#pragma once

#include "data/kinds/images.h"

namespace mlx::data {

inline SpoolPtr spooled(ByteView pixels, std::int64_t image, const MemoryBudget& budget = {}) {
  SpoolWriter writer(image, budget);
  writer.append(pixels.data(), static_cast<std::int64_t>(pixels.size()) / image);
  return writer.finish();
}

inline Bytes pixels_of(const Images& images) {
  Bytes out(static_cast<std::size_t>(images.count * images.image_bytes()));
  images.pixels->read(0, images.count, out.data());
  return out;
}

inline Images made_up(std::int64_t count, std::int64_t height, std::int64_t width, std::int64_t channels,
                      const MemoryBudget& budget = {}) {
  Images out;
  out.count = count, out.height = height, out.width = width, out.channels = channels, out.classes = 10;
  Bytes pixels(static_cast<std::size_t>(count * height * width * channels));
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * 7919 >> 3);
  out.pixels = spooled(pixels, out.image_bytes(), budget);
  for (std::int64_t i = 0; i < count; ++i) out.labels.push_back(static_cast<std::int32_t>(i % 1000));
  return out;
}

}  // namespace mlx::data
