// Adding files and symbolic links on disk to a batch, with their modes. Used by scan.cpp and update.cpp, and by whoever
// imports or restores files.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/progress.h"
#include "store/pack/batch.h"
#include "store/worktree/walk.h"

namespace mlx::store {

// A regular file or a symbolic link. A file that changes while it is read is read again; kConflict if it keeps
// changing. kUsage for anything else, and if `stored_as` is not a path that can be stored; kNotFound if it is absent.
Entry add_file(Batch& batch, const std::string& path, const std::string& stored_as);
// The same for many, by all cores.
std::vector<Entry> add_files(Batch& batch, const std::vector<std::pair<std::string, std::string>>& path_and_stored_as,
                             Progress& progress);
// The same for the files of a walk with these numbers, into the same places of `entries`. The result is not 0 for each
// file that was as walked when it was read.
std::vector<char> add_walked(Batch& batch, const Walk& walk, const std::string& folder,
                             const std::vector<std::size_t>& numbers, std::vector<Entry>& entries, Progress& progress);

}  // namespace mlx::store
