// Augmentation: random changes to one image, drawn from (seed, epoch, index of the example), and what mixes the images
// of a batch. Changes of bytes come first (pixel_changes.h); those here are written straight into a batch.
#pragma once

#include <cstdint>
#include <vector>

#include "data/images/image_size.h"
#include "data/images/normalize.h"

namespace mlx::data {

struct Augment {
  int shift = 0;      // random translation by up to so many pixels, filled with zero
  bool flip = false;  // mirrored left to right, half of the time
  int erase = 0;      // side of a random square set to the mean, 0 for none
  // Changes of bytes, in this order, before the others.
  double crop = 0;          // smallest share of the area of a random resized crop, 0 for none
  int rand_operations = 0;  // RandAugment: so many operations
  int rand_magnitude = 0;   // of its 31 magnitudes, 0 to 30
  double brightness = 0, contrast = 0, saturation = 0;  // factors are drawn from 1 - x to 1 + x, but at least 0
  double hue = 0;                                       // turned by up to this share of the circle
  double rotate = 0;                                    // by up to so many degrees, filled with black
  double mixup = 0;  // images are mixed in pairs by shares drawn from Beta(mixup, mixup); 0: none
  bool operator==(const Augment&) const = default;
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
