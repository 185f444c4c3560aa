// What artifacts, aliases and tags may be called. Used where they are made (kUsage), where they arrive from elsewhere
// and where pointers are read (kCorrupt).
#pragma once

#include <string>
#include <string_view>

namespace mlx::registry {

// Why `name` can not name an artifact, or "": it must be a safe relative path of UTF-8 without '@', ':' and control
// characters, without a part ".git" or ".mlx", and not "run" (which begins a reference to a run).
std::string artifact_name_problem(std::string_view name);
// Why `name` can not be an alias or a tag, or "": letters, digits, '.', '_', '-' and '/', not beginning with '-', and
// nothing that a selector means already (latest, vN, at least 8 hex digits).
std::string label_problem(std::string_view name);

bool is_version_number(std::string_view selector);  // v and digits
bool is_hex_prefix(std::string_view selector);      // 8 to 64 lower-case hex digits

}  // namespace mlx::registry
