// Random changes to one image, drawn from (seed, epoch, index of the example) and written straight into a batch.
#pragma once

#include <cstdint>

#include "data/loader.h"
#include "data/normalize.h"

namespace mlx::data {

struct ImageSize {
  std::int64_t height = 0, width = 0, channels = 0;
  std::int64_t elements() const { return height * width * channels; }
};

// What happens to one image. The image is first mirrored, then moved, then a square of it erased.
struct Change {
  std::int64_t down = 0, right = 0;  // pixels, either sign
  bool flip = false;
  std::int64_t erase = 0, top = 0, left = 0;  // side and corner of the square, inside the image
};
Change draw_change(const Augment& augment, const ImageSize& size, std::uint64_t seed, std::uint64_t epoch,
                   std::uint64_t index);

// Normalised image `from` with `change` into `to`, size.elements() floats. What is moved in is black, what is erased is
// the mean.
void write_image(const PixelTable& table, const ImageSize& size, const Change& change, const std::uint8_t* from,
                 float* to);

}  // namespace mlx::data
