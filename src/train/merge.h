// Makes a version of a model with low-rank adapters into one without: the adapters are merged into the weights
// (nn::merged). Used by trainer.cpp for `--merge`.
#pragma once

#include "registry/versions/artifacts.h"
#include "train/trainer.h"

namespace mlx::train {

struct MergeOutcome {
  bool unchanged = false;
  registry::Version version;
};

// A separate run, whose key comes from the digest of `from`. Makes the next version of the same name, a child of
// `from`. Of the options it uses the level, `force` and the title.
MergeOutcome merge_version(registry::Repository& repository, const registry::Version& from, const TrainOptions& options,
                           Progress& progress);

}  // namespace mlx::train
