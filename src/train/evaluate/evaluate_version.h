// Evaluation through the repository: a run with a key, and an attachment on the model's version.
#pragma once

#include <string>

#include "registry/versions/artifacts.h"
#include "train/evaluate/evaluate.h"

namespace mlx::train {

struct EvaluateOutcome {
  bool unchanged = false;
  bool recorded = true;  // false if the repository could not be written, which was reported to `progress`
  Evaluation evaluation;
  registry::Version model;
};
EvaluateOutcome evaluate_version(registry::Repository& repository, const std::string& model, const std::string& dataset,
                                 const std::string& split, bool force, const std::string& title,
                                 kernels::Backend backend, Progress& progress, const data::MemoryBudget& budget = {});

}  // namespace mlx::train
