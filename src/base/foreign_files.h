// Files and paths that others wrote: a project that git brought, a folder that several share. They are read up to a
// size and not through links.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mlx {

inline constexpr std::size_t kMaxProjectText = std::size_t{4} << 20;
// A file that a project brings along, such as its settings. kConflict for a symbolic link, which could lead anywhere;
// kCorrupt for anything but a regular file, and for more than `most` bytes.
std::string read_project_text(const std::string& path, std::size_t most = kMaxProjectText);

// Longer than a system takes: 4095 bytes, 255 in a part.
bool is_too_long(std::string_view path);

}  // namespace mlx
