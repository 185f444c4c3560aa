// .mlxignore: the files of a folder that are not part of a dataset. A subset of gitignore's syntax: blank lines and
// lines with # are skipped; "!" includes again; a trailing "/" matches folders only; with a "/" elsewhere the pattern
// is relative to the file's folder, without one it matches names at any depth; "*" and "?" match within a part, "**"
// across parts, "\" quotes. The last match wins. An ignored folder is not searched.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mlx::store {

struct IgnoreRule {
  std::string pattern;  // without "!", and without leading and trailing "/"
  bool negated = false;
  bool folders_only = false;
  bool anchored = false;
};

// The rules of one file, and those of the folders above it.
struct IgnoreRules {
  std::shared_ptr<const IgnoreRules> above;
  std::string base;  // the folder of the file, relative to the root: "" or "a/b/"
  std::vector<IgnoreRule> rules;
};

std::vector<IgnoreRule> parse_ignore(std::string_view text);
bool glob_matches(std::string_view pattern, std::string_view text);
// `path` is relative to the root.
bool is_ignored(const IgnoreRules* rules, std::string_view path, bool folder);

}  // namespace mlx::store
