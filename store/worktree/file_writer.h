// One stored file as a file on disk. Used by checkout and by the file cache.
#pragma once

#include "store/pack/store.h"
#include "store/worktree/beneath.h"

namespace mlx::store {

// Makes `path` below `folder`, which must not exist, be `entry` (a file or a symbolic link). kCorrupt where the stored
// content is not what the entry says; then a file may be left at `path`.
void write_entry(const Store& store, Disk& disk, const Entry& entry, const Beneath& folder, const std::string& path,
                 Progress& progress);

}  // namespace mlx::store
