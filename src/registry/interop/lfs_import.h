// Git LFS beside mlx: imports datasets from a repository that uses it. Reads the local object store of git-lfs
// directly: an LFS oid is the same SHA-256 as mlx's digest of a content.
#pragma once

#include <string>
#include <vector>

#include "registry/interop/import.h"

namespace mlx::registry {

// Finds what HEAD tracks with Git LFS, as datasets. Each of `paths` (relative to the root of mlx) becomes one dataset
// with everything that HEAD has below it. Without paths the datasets are the topmost folders whose files are all in
// LFS, and each remaining file alone. Throws kNotFound for content that neither this store nor the local cache of
// git-lfs has.
std::vector<ImportDataset> find_lfs_datasets(Repository& repository, const std::vector<std::string>& paths);

// The path of this oid's object in a git-lfs store (git_lfs_folder).
std::string lfs_object_path(const std::string& lfs, const Digest& oid);

}  // namespace mlx::registry
