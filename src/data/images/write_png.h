// Writes small pictures for people: PNG (RFC 2083) without filters.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace mlx::data {

// `pixels`: height * width * channels bytes, row-major; 1 channel is grey, 3 are RGB. Of others the first is shown.
Bytes write_png(const std::uint8_t* pixels, std::int64_t height, std::int64_t width, std::int64_t channels);

}  // namespace mlx::data
