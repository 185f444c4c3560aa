// Sizes as people type them: `--memory 4GiB`.
#pragma once

#include <cstdint>
#include <string_view>

namespace mlx {

// "4GiB", "1.5 MiB", "500MB" (decimal), "1024" (bytes); kUsage for anything else.
std::uint64_t parse_byte_size(std::string_view text);

}  // namespace mlx
