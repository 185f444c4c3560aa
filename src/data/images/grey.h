// Grey from colour.
#pragma once

#include <cstdint>

namespace mlx::data {

// ITU-R BT.601 in 16 bits of fraction, as Pillow's convert("L").
inline std::uint8_t grey_of(int red, int green, int blue) {
  return static_cast<std::uint8_t>((red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16);
}

}  // namespace mlx::data
