// Finds the versions that damage in the store affects. Used by `mlx fsck`.
#pragma once

#include <string>
#include <vector>

#include "base/progress.h"
#include "registry/repository.h"
#include "store/maintenance/repair.h"

namespace mlx::registry {

// An unreadable file of a version; an empty path means that the version's file list is unreadable.
struct DamagedFile {
  std::string name;  // "data/fashion@v2", "run:0123… checkpoint 100"
  Digest manifest;
  std::string path;
  Digest content;  // zero if the path is empty
  std::string why;
  bool missing = false;  // absent rather than damaged: it may never have been fetched
};
// Checks every version that this clone made, and versions of others whose manifest is here. For the latter, and in a
// lazy clone, absent content is no damage: it may never have been fetched.
std::vector<DamagedFile> damaged_versions(Repository& repository, const store::FsckReport& report, Progress& progress);

}  // namespace mlx::registry
