// Restores lost content from the worktree and from remotes. Used by `mlx fsck --repair`.
#pragma once

#include <string>
#include <vector>

#include "registry/maintenance/damaged_versions.h"
#include "registry/settings/remotes.h"

namespace mlx::registry {

// Stores again what `hits` and `lost` lack: first from files of the worktree that still have the content, then from
// each remote that has it and can be reached. Returns the number of files and objects restored.
struct Restored {
  std::uint64_t files = 0, objects = 0;
  std::vector<std::string> unreached;  // remotes that did not answer: name and reason
};
Restored restore(Repository& repository, const std::vector<DamagedFile>& hits,
                 const std::vector<store::ObjectRef>& lost, const std::vector<RemoteConfig>& remotes,
                 Progress& progress);

}  // namespace mlx::registry
