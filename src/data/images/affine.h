// Rotation, shear and translation, byte for byte as Pillow's transform(AFFINE) with the nearest pixel and black around.
#pragma once

#include "data/images/image_size.h"

namespace mlx::data {

// The pixel at column x, row y comes from column a x + b y + c, row d x + e y + f; pixels have their centre at a half.
struct Affine {
  double a = 1, b = 0, c = 0, d = 0, e = 1, f = 0;
};
Affine rotation(const ImageSize& size, double degrees);  // counterclockwise around the centre, as Pillow's rotate()

void transform(const ImageSize& size, const Affine& affine, std::uint8_t* image);  // in place

}  // namespace mlx::data
