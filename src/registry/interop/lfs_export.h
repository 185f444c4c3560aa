// Git LFS beside mlx: exports versions as LFS pointers and objects.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "registry/repository.h"

namespace mlx::registry {

struct LfsExport {
  std::size_t pointers = 0, objects = 0, unchanged = 0;  // pointers and objects written; files that were up to date
  std::uint64_t bytes = 0;                               // of the objects
  std::vector<std::string> notes;
};
// Writes a version as LFS pointers into `folder` (absolute, inside a git worktree), and its contents into that
// repository's store of LFS objects. Throws kConflict, before anything is written, if `folder` holds something else at
// one of the paths.
LfsExport export_lfs(Repository& repository, const Digest& manifest, const std::string& folder, bool dry_run,
                     Progress& progress);

}  // namespace mlx::registry
