// Git LFS beside mlx: versions as its pointers and objects.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "registry/repository.h"

namespace mlx::registry {

struct LfsExport {
  std::size_t pointers = 0, objects = 0, unchanged = 0;  // written; already as they would be written
  std::uint64_t bytes = 0;                               // of the objects
  std::vector<std::string> notes;
};
// Writes a version as pointers into `folder` (absolute, inside a git worktree) and its contents into that repository's
// store of LFS objects. What stands there and is another thing is kConflict, before anything is written.
LfsExport export_lfs(Repository& repository, const Digest& manifest, const std::string& folder, bool dry_run,
                     Progress& progress);

}  // namespace mlx::registry
