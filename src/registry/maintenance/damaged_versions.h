// What damage in the store means for versions. Used by `mlx fsck`.
#pragma once

#include <string>
#include <vector>

#include "base/progress.h"
#include "registry/repository.h"
#include "store/pack/repair.h"

namespace mlx::registry {

// A file of a version that cannot be read, or with an empty path a version whose list of files cannot.
struct DamagedFile {
  std::string name;  // "data/fashion@v2", "run:0123… checkpoint 100"
  Digest manifest;
  std::string path;
  Digest content;  // zero where the path is empty
  std::string why;
  bool missing = false;  // it may never have been fetched
};
// Of every version that this clone made, and of those of others whose manifest is here. Of the latter what is missing
// may never have been fetched and is no damage, nor is it in a lazy clone.
std::vector<DamagedFile> damaged_versions(Repository& repository, const store::FsckReport& report, Progress& progress);

}  // namespace mlx::registry
