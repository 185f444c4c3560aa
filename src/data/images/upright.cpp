// One walk for all orientations: the result is written in order, and steps through the source differ.

#include "data/images/upright.h"

#include <cstring>
#include <utility>

#include "base/error.h"

namespace mlx::data {

Picture upright(Picture picture, int orientation) {
  CHECK(orientation >= 1 && orientation <= 8);
  if (orientation == 1) return picture;
  const bool turned = orientation >= 5;
  // Mirrored columns and rows of the source.
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  Picture result{turned ? picture.width : picture.height, turned ? picture.height : picture.width, picture.channels,
                 Bytes(picture.pixels.size())};
  const std::int64_t right = from_right ? -1 : 1, down = from_bottom ? -picture.width : picture.width;
  const std::int64_t next_column = turned ? down : right, next_row = turned ? right : down;
  const std::int64_t first =
      (from_right ? picture.width - 1 : 0) + (from_bottom ? (picture.height - 1) * picture.width : 0);
  std::uint8_t* to = result.pixels.data();
  for (std::int64_t y = 0; y < result.height; ++y) {
    for (std::int64_t x = 0; x < result.width; ++x, to += picture.channels) {
      const std::uint8_t* const from =
          picture.pixels.data() + (first + y * next_row + x * next_column) * picture.channels;
      for (std::int64_t c = 0; c < picture.channels; ++c) to[c] = from[c];
    }
  }
  return result;
}

}  // namespace mlx::data
