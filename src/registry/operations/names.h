// Rules for the names of artifacts, aliases and tags. Checked where names are made (kUsage), where they arrive from
// elsewhere, and where pointers are read (kCorrupt).
#pragma once

#include <string>
#include <string_view>

namespace mlx::registry {

// Why `name` cannot name an artifact, or "". It must be a safe relative path in UTF-8 without '@', ':' and control
// characters, without a component ".git" or ".mlx", and not "run" (which begins a reference to a run).
std::string artifact_name_problem(std::string_view name);
// Why `name` cannot be an alias or a tag, or "". It may hold letters, digits, '.', '_', '-' and '/'; it must not begin
// with '-', and must not be a selector already (latest, vN, at least 8 hex digits).
std::string label_problem(std::string_view name);

bool is_version_number(std::string_view selector);  // v and digits
bool is_hex_prefix(std::string_view selector);      // 8 to 64 lower-case hex digits

}  // namespace mlx::registry
