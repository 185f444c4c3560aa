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

// A run of its own, known by the digest of `from`; the next version of the same name, and a child of it. Of the options
// the backend, `force` and the title count.
MergeOutcome merge_version(registry::Repository& repository, const registry::Version& from, const TrainOptions& options,
                           Progress& progress);

}  // namespace mlx::train
