// What gc must keep: everything that this repository, or a remote, still refers to. The store removes the rest
// (store/pack/gc.h).
#pragma once

#include "base/progress.h"
#include "registry/repository.h"
#include "registry/sync/sync.h"
#include "store/pack/gc.h"

namespace mlx::registry {

// What operations in force name, by the rows of their kinds (operations/kind.h); all operations; and what pointers
// name: in the worktree, in git's references, stashes and indexes.
store::GcReport collect_garbage(Repository& repository, const store::GcOptions& options, Progress& progress);

// The same for a remote in a folder: what its heads reach, and what pointers here name. kConflict where this clone does
// not know all of its operations, kUsage for a remote elsewhere.
store::GcReport collect_garbage_of(Repository& repository, const RemoteConfig& remote, const store::GcOptions& options,
                                   Progress& progress);

}  // namespace mlx::registry
