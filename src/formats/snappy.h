// Snappy's block format, as Parquet pages are compressed with. Source: google/snappy, format_description.txt.
#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.h"

namespace mlx::formats {

// Decompresses the whole of `packed` into `plain`, which has exactly the size of the result; else throws kCorrupt.
void unpack_snappy(ByteView packed, std::span<std::uint8_t> plain);

}  // namespace mlx::formats
