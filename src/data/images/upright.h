// Turns and mirrors pictures as EXIF's orientation asks.
#pragma once

#include "data/images/decode.h"

namespace mlx::data {

// `orientation` is tag 0x0112 of EXIF 2.3 (section 4.6.4): where the first row and the first column of the file belong,
// 1 (top, left) to 8 (left, bottom). 5 to 8 exchange height and width.
Picture upright(Picture picture, int orientation);

}  // namespace mlx::data
