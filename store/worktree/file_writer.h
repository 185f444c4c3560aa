// Writes one stored file to disk. Used by checkout and by the file cache.
#pragma once

#include "store/pack/store.h"
#include "store/worktree/beneath.h"

namespace mlx::store {

// Writes `entry` (a file or a symbolic link) to `path` below `folder`, which must not exist. kCorrupt if the stored
// content does not match the entry; then a file may be left at `path`.
void write_entry(const Store& store, Disk& disk, const Entry& entry, const Beneath& folder, const std::string& path,
                 Progress& progress);

}  // namespace mlx::store
