// What gc must keep: everything that this repository, or a remote, still refers to. The store removes the rest
// (store/maintenance/gc.h).
#pragma once

#include "base/progress.h"
#include "registry/repository.h"
#include "registry/sync/sync.h"
#include "store/maintenance/gc.h"

namespace mlx::registry {

// Keeps all operations, what operations in force name (by the rows of their kinds, operations/kind.h), and what
// pointers name in the worktree and in git's references, stashes and indexes.
store::GcReport collect_garbage(Repository& repository, const store::GcOptions& options, Progress& progress);

// The same for a remote that is a folder: keeps what its heads reach, and what pointers here name. Throws kConflict if
// this clone does not know all of its operations, kUsage for a remote of another kind.
store::GcReport collect_garbage_of(Repository& repository, const RemoteConfig& remote, const store::GcOptions& options,
                                   Progress& progress);

}  // namespace mlx::registry
