// Walks only below the parts of a pattern that hold no `*` and no `?`.
#include "cmd/cli/globs.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/path.h"
#include "cmd/describe.h"
#include "registry/repository.h"
#include "store/worktree/ignore.h"

namespace mlx::cmd {
namespace {

bool is_pattern(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '*' || text[i] == '?') {
      return true;
    }
  }
  return false;
}

// "data/x" of "data/x/*/y": the part before the first pattern.
std::string fixed_part(const std::string& pattern) {
  std::string fixed;
  for (std::size_t from = 0; from < pattern.size();) {
    const std::size_t to = std::min(pattern.find('/', from), pattern.size());
    if (pattern.substr(from, to - from).find_first_of("*?\\") != std::string::npos) break;
    fixed = pattern.substr(0, to);
    from = to + 1;
  }
  return fixed;
}

struct Search {
  const Interruption& interruption;
  std::string root, pattern;
  std::size_t depth = 0;  // parts of the pattern; no limit if it has "**"
  bool hidden = false;    // the pattern names a dot somewhere
  std::vector<std::string> found;

  void look_into(const std::string& relative, std::size_t level) {
    interruption.check();
    const std::string folder = join_path(root, relative);
    const std::vector<FolderEntry> entries = list_entries(folder);
    if (!relative.empty() && std::ranges::binary_search(entries, ".mlx", {}, &FolderEntry::name)) return;  // another's
    for (const auto& [name, is_folder] : entries) {
      if (is_private_name(name) || (name[0] == '.' && !hidden)) continue;
      const std::string inside = relative.empty() ? name : relative + "/" + name;
      if (!is_folder && name.ends_with(".mlx")) continue;
      if (store::glob_matches(pattern, inside))
        found.push_back(inside);
      else if (is_folder && (depth == 0 || level + 1 < depth))
        look_into(inside, level + 1);
    }
  }
};

std::vector<std::string> matches_of(const std::string& root, const std::string& pattern,
                                    const Interruption& interruption) {
  const std::string fixed = fixed_part(pattern);
  Search search{
      interruption, root, pattern, 0, pattern.starts_with('.') || pattern.find("/.") != std::string::npos, {}};
  if (pattern.find("**") == std::string::npos) {
    search.depth = static_cast<std::size_t>(std::count(pattern.begin(), pattern.end(), '/')) + 1;
  }
  const std::size_t level =
      fixed.empty() ? 0 : static_cast<std::size_t>(std::count(fixed.begin(), fixed.end(), '/')) + 1;
  if (is_real_folder(join_path(root, fixed))) search.look_into(fixed, level);
  return search.found;
}

}  // namespace

std::vector<std::string> expand_paths(const std::vector<std::string>& words, Context& context) {
  registry::Repository& repository = context.repository();
  std::vector<std::string> paths;
  for (const std::string& word : words) {
    const std::string inside = repository.inside(word, context.folder());
    if (!is_pattern(word) || path_exists(join_path(repository.root(), inside))) {
      paths.push_back(inside);
      continue;
    }
    const std::vector<std::string> found = matches_of(repository.root(), inside, repository.interruption());
    if (found.empty()) {
      throw Error(ErrorKind::kNotFound, fmt::format("'{}' matches no file and no folder", printable(word)),
                  "`**` matches across folders; a name that begins with a dot needs a dot in the pattern");
    }
    paths.insert(paths.end(), found.begin(), found.end());
  }
  std::set<std::string> all(paths.begin(), paths.end()), seen;
  std::vector<std::string> top;
  for (const std::string& path : paths) {
    bool below = false;
    for (std::size_t slash = path.find('/'); slash != std::string::npos && !below; slash = path.find('/', slash + 1)) {
      below = all.contains(path.substr(0, slash));
    }
    if (!below && seen.insert(path).second) top.push_back(path);
  }
  return top;
}

}  // namespace mlx::cmd
