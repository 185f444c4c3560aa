// Checks on a TOML text before it is parsed. Used by toml.cpp: toml++ 3.3 fails its own assertions, or worse without
// them, on some characters that TOML does not allow.
#pragma once

#include <string>
#include <string_view>

namespace mlx {

// kUsage naming file and line for a control character anywhere (TOML 1.0 allows tabs and line ends only), and for a
// letter beyond ASCII outside of strings and comments (bare keys and values have none). Also for more than 256
// nested tables, arrays and parts of keys: parsing the text, building the tree and freeing it are recursive.
void check_toml_text(std::string_view text, const std::string& file);

}  // namespace mlx
