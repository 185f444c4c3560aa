// Random resized crop (Szegedy et al. 2015), as torchvision's RandomResizedCrop: a part of a picture with a random area
// and shape, scaled to the size of the network's input.
#pragma once

#include "data/images/decode.h"
#include "data/images/draws.h"

namespace mlx::data {

// What a crop is drawn from.
struct RandomCrop {
  double least = 1;  // share of the area
  DrawKey key;
};

// A share of the area, uniform from `least` to 1, and a ratio of width to height, log-uniform from 3/4 to 4/3, at a
// uniform place. After ten draws that do not fit, the middle with the nearest ratio.
Region draw_crop(const RandomCrop& crop, std::int64_t height, std::int64_t width);

}  // namespace mlx::data
