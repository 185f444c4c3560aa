// Coordinates have 16 bits of fraction, as in Pillow's Geometry.c, and are stepped from pixel to pixel.

#include "data/images/affine.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/bytes.h"

namespace mlx::data {
namespace {

std::int64_t fixed_point(double value) {
  return static_cast<std::int64_t>(std::floor(value * 65536.0 + 0.5));
}

template <int kChannels>
void transform_rows(const ImageSize& size, const Affine& m, const std::uint8_t* from, std::uint8_t* to) {
  const std::int64_t right_x = fixed_point(m.a), right_y = fixed_point(m.d), down_x = fixed_point(m.b),
                     down_y = fixed_point(m.e);
  std::int64_t row_x = fixed_point(m.c + m.a * 0.5 + m.b * 0.5), row_y = fixed_point(m.f + m.d * 0.5 + m.e * 0.5);
  for (std::int64_t y = 0; y < size.height; ++y, row_x += down_x, row_y += down_y) {
    std::int64_t x = row_x, source_y = row_y;
    for (std::int64_t i = 0; i < size.width; ++i, x += right_x, source_y += right_y, to += kChannels) {
      const std::int64_t column = x >> 16, row = source_y >> 16;
      const bool inside = column >= 0 && column < size.width && row >= 0 && row < size.height;
      const std::uint8_t* const pixel = from + (row * size.width + column) * kChannels;
      for (int c = 0; c < kChannels; ++c) to[c] = inside ? pixel[c] : std::uint8_t{0};
    }
  }
}

}  // namespace

Affine rotation(const ImageSize& size, double degrees) {
  // Rounded as Pillow does, so that a quarter turn has no traces of the sine of 180 degrees.
  const auto rounded = [](double v) { return std::round(v * 1e15) / 1e15; };
  const double angle = -degrees * std::numbers::pi / 180;
  const double cosine = rounded(std::cos(angle)), sine = rounded(std::sin(angle));
  const double x = static_cast<double>(size.width) / 2, y = static_cast<double>(size.height) / 2;
  return {cosine, sine, x - cosine * x - sine * y, -sine, cosine, y + sine * x - cosine * y};
}

void transform(const ImageSize& size, const Affine& affine, std::uint8_t* image) {
  const Bytes source(image, image + size.elements());
  if (size.channels == 3)
    transform_rows<3>(size, affine, source.data(), image);
  else
    transform_rows<1>(size, affine, source.data(), image);
}

}  // namespace mlx::data
