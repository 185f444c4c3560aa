// What a work command starts from: the dataset's version as the worktree names it, and a warning where the folder
// differs.
#pragma once

#include <string>

#include "registry/versions/artifacts.h"

namespace mlx::train {

// Resolves a dataset or a model. kUsage where the reference names the other kind.
registry::Version resolve_dataset(registry::Repository& repository, const std::string& reference, Progress& progress);
registry::Version resolve_model(registry::Repository& repository, const std::string& reference);

}  // namespace mlx::train
