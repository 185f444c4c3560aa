// Augmentation: random changes to one image, drawn from (seed, epoch, index of the example) and written straight into a
// batch, and what mixes the images of a batch.
#pragma once

#include <cstdint>
#include <vector>

#include "data/images/normalize.h"

namespace mlx::data {

struct Augment {
  int shift = 0;      // random translation by up to so many pixels, filled with zero
  bool flip = false;  // mirrored left to right, half of the time
  int erase = 0;      // side of a random square set to the mean, 0 for none
  double mixup = 0;   // images are mixed in pairs by shares drawn from Beta(mixup, mixup); 0: none
  bool operator==(const Augment&) const = default;
};

struct ImageSize {
  std::int64_t height = 0, width = 0, channels = 0;
  std::int64_t elements() const { return height * width * channels; }
};

// The changes to one image: it is mirrored first, then shifted, then a square of it is erased.
struct Change {
  std::int64_t down = 0, right = 0;  // pixels, either sign
  bool flip = false;
  std::int64_t erase = 0, top = 0, left = 0;  // side and corner of the square, inside the image
};
Change draw_change(const Augment& augment, const ImageSize& size, std::uint64_t seed, std::uint64_t epoch,
                   std::uint64_t index);

// Mixup (Zhang et al. 2018): example i of a batch becomes `share` of itself and 1 - share of example partner[i], image
// and label. Drawn from (seed, step); the share by Jöhnk's method (1964), which suits small alphas.
struct Mix {
  float share = 1;
  std::vector<std::int64_t> partner;  // a permutation of the batch
};
Mix draw_mix(double alpha, std::int64_t count, std::uint64_t seed, std::uint64_t step);

// Writes the normalised image `from` with `change` applied to `to`, size.elements() floats. Pixels that are shifted in
// are black, erased ones have the mean.
void write_image(const PixelTable& table, const ImageSize& size, const Change& change, const std::uint8_t* from,
                 float* to);

}  // namespace mlx::data
