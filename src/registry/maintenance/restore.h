// Brings back what was lost, from the worktree and from remotes. Used by `mlx fsck --repair`.
#pragma once

#include <string>
#include <vector>

#include "registry/maintenance/damaged_versions.h"
#include "registry/settings/remotes.h"

namespace mlx::registry {

// Stores again what `hits` and `lost` lack: from files of the worktree that still have the content, then from the
// remotes, each as far as it has it and can be reached. The number of files and objects that came.
struct Restored {
  std::uint64_t files = 0, objects = 0;
  std::vector<std::string> unreached;  // of each remote that could not be asked: its name and why
};
Restored restore(Repository& repository, const std::vector<DamagedFile>& hits,
                 const std::vector<store::ObjectRef>& lost, const std::vector<RemoteConfig>& remotes,
                 Progress& progress);

}  // namespace mlx::registry
