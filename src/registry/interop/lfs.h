// Git LFS beside mlx: datasets out of a repository that uses it, and versions as its pointers and objects. The local
// object store of git-lfs is read and filled directly; its oid is the digest that mlx knows a content by.
#pragma once

#include "registry/interop/import.h"

namespace mlx::registry {

// What HEAD tracks with Git LFS, as datasets. Each of `paths` (from the root of mlx) is one, with everything that HEAD
// has there; without paths the topmost folders in which all is in LFS are, and the other files one by one. kNotFound
// names what is neither in this store nor in the local cache of git-lfs.
std::vector<ImportDataset> find_lfs_datasets(Repository& repository, const std::vector<std::string>& paths);

// Where the object of this oid stands in a store of git-lfs (git_lfs_folder).
std::string lfs_object_path(const std::string& lfs, const Digest& oid);

struct LfsExport {
  std::size_t pointers = 0, objects = 0, unchanged = 0;  // written; already as they would be written
  std::uint64_t bytes = 0;                               // of the objects
  std::vector<std::string> notes;
};
// Writes a version as pointers into `folder` (absolute, inside a git worktree) and its contents into that repository's
// store of LFS objects. What stands there and is another thing is kConflict, before anything is written.
LfsExport export_lfs(Repository& repository, const Digest& manifest, const std::string& folder, bool dry_run,
                     Progress& progress);

}  // namespace mlx::registry
