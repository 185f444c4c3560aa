// Patterns of the command line that the shell left alone: `mlx add 'data/*.csv'`. Used by add, rm and status.
#pragma once

#include <string>
#include <vector>

#include "cmd/cli/cli.h"

namespace mlx::cmd {

// The paths that the words name, as seen from the repository's root, each once, in the order of the words. A word that
// names what exists, or has no `*` and no `?`, stands for itself. In a pattern both match within one part of a path,
// `**` across parts, and `\` quotes; names that begin with a dot are matched only where the pattern says the dot, and
// pointers never. Of a folder and what is inside it only the folder is taken. kNotFound where a pattern matches
// nothing.
std::vector<std::string> expand_paths(const std::vector<std::string>& words, Context& context);

}  // namespace mlx::cmd
