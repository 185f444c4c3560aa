// That .mlx is this clone's own: made here, not brought along by a project that git or somebody else handed over, with
// metadata, keys and settings of a stranger's choice.
#pragma once

#include <string>

namespace mlx::registry {

// kRefused where .mlx in `root` is a symbolic link, or where git tracks it or anything in it. Fine where there is none
// yet. Cheap: git's index is read when it has changed since the last time (.mlx/own remembers that,
// mlx-format-cache(5)).
void require_own_folder(const std::string& root);

}  // namespace mlx::registry
