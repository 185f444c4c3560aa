// Files, paths and folders in whose place others may have put something else: a project that git brought, a folder that
// several share. Read up to a size and not through links; removed by what was opened, not by a name.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mlx {

inline constexpr std::size_t kMaxProjectText = std::size_t{4} << 20;
// A file that a project brings along, settings and their like: kConflict for a symbolic link, which leads wherever who
// made the project likes; kCorrupt for what is no regular file, and for more than `most` bytes.
std::string read_project_text(const std::string& path, std::size_t most = kMaxProjectText);

// Longer than a system takes: 4095 bytes, 255 in a part.
bool is_too_long(std::string_view path);

// Everything in an open folder but `kept`; the folder itself stays, and links are not followed. `path` is its name for
// errors.
void remove_content(int folder, const std::string& path, std::string_view kept = {});

}  // namespace mlx
