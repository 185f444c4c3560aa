// Netpbm's binary images of bytes: PGM (P5, grey) and PPM (P6, red, green and blue), as the pgm(5) and ppm(5) pages of
// Netpbm describe them. Bytes in, structure out.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/bytes.h"

namespace mlx::formats {

struct NetpbmImage {
  std::int64_t height = 0, width = 0, channels = 0;
  ByteView pixels;  // [height, width, channels]; points into the parsed bytes
};

bool is_netpbm(ByteView bytes);  // begins with P and a digit from 1 to 7
// kCorrupt "WHAT: offset 7: …" if the header is damaged, or there are too few or too many pixels; kUsage with a hint
// for the other kinds of Netpbm (text, bitmaps, more than 8 bits).
NetpbmImage parse_netpbm(ByteView bytes, std::string_view what);

}  // namespace mlx::formats
