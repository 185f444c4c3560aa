// DVC beside mlx: datasets out of a repository that uses it, from its .dvc files and its local cache.
#pragma once

#include "registry/interop/import.h"

namespace mlx::registry {

struct DvcDatasets {
  std::vector<ImportDataset> datasets;
  std::vector<std::string> dvc_files;  // that name them, absolute
};
// What the .dvc files at `paths` (from the root of mlx: a .dvc file, the data that one stands beside, or a folder to
// search; everything where there are none) keep, each out a dataset. Contents are checked by their MD5 when they are
// imported. kNotFound names what is not in the cache; kCorrupt what DVC would not have written.
DvcDatasets find_dvc_datasets(Repository& repository, const std::vector<std::string>& paths);

}  // namespace mlx::registry
