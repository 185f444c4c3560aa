// What a TOML text may hold at all, seen before it is parsed. Used by toml.cpp: toml++ 3.3 stops at assertions of its
// own, or worse without them, for some characters that TOML does not allow where they stand.
#pragma once

#include <string>
#include <string_view>

namespace mlx {

// kUsage naming file and line for a control character anywhere (TOML 1.0 allows tabs and line ends only), and for a
// letter beyond ASCII outside of strings and comments (bare keys and values have none). Also for what nests deeper than
// 256 tables, arrays and parts of keys: who parses it, turns it into a tree or lets go of it calls itself for each.
void check_toml_text(std::string_view text, const std::string& file);

}  // namespace mlx
