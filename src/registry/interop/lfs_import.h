// Git LFS beside mlx: datasets out of a repository that uses it. The local object store of git-lfs is read directly;
// its oid is the digest that mlx knows a content by.
#pragma once

#include <string>
#include <vector>

#include "registry/interop/import.h"

namespace mlx::registry {

// What HEAD tracks with Git LFS, as datasets. Each of `paths` (from the root of mlx) is one, with everything that HEAD
// has there; without paths the topmost folders in which all is in LFS are, and the other files one by one. kNotFound
// names what is neither in this store nor in the local cache of git-lfs.
std::vector<ImportDataset> find_lfs_datasets(Repository& repository, const std::vector<std::string>& paths);

// Where the object of this oid stands in a store of git-lfs (git_lfs_folder).
std::string lfs_object_path(const std::string& lfs, const Digest& oid);

}  // namespace mlx::registry
