// DVC beside mlx: imports datasets from a repository that uses DVC. Reads its .dvc files and its local cache.
#pragma once

#include "registry/interop/import.h"

namespace mlx::registry {

struct DvcDatasets {
  std::vector<ImportDataset> datasets;
  std::vector<std::string> dvc_files;  // the .dvc files that name the datasets, absolute
};
// Finds what the .dvc files at `paths` track; each .dvc file becomes one dataset. A path is relative to the root of mlx
// and names a .dvc file, the data beside one, or a folder to search. Without paths the whole root is searched. Contents
// are checked against their MD5 during the import. Throws kNotFound for content that the cache lacks, kCorrupt for a
// file that DVC would not have written.
DvcDatasets find_dvc_datasets(Repository& repository, const std::vector<std::string>& paths);

}  // namespace mlx::registry
