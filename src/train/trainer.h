// Training: from a config to a version and a run, with checkpoints that resume to the same bits.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "kernels/backend.h"
#include "registry/versions/runs.h"
#include "train/config.h"
#include "train/profile.h"

namespace mlx::train {

struct TrainOptions {
  bool force = false;  // run although the key is known
  bool fresh = false;  // from the first step, although a run of the same key has a checkpoint; force implies it
  std::string resume;  // run id; "" for a new run, or one of the same key that was stopped
  std::string title;   // the command as typed
  kernels::Backend backend = kernels::best_backend();
  Profiler* profiler = nullptr;  // is told of every step; what it saw is the caller's
  std::int64_t memory = 0;       // bytes that the training may take; 0: as many as it wants. Changes no bit.
  std::function<void(const std::string&)> tell;    // gets lines for people, such as how much it will take
  std::function<void(const std::string&)> notice;  // gets what they have to know: which run it goes on with
  bool merge = false;  // of a model with adapters: also make the version that has them in its weights
};

struct TrainOutcome {
  bool unchanged = false;
  registry::Run run;
  registry::Version version;
  std::optional<registry::Version> adapters;  // merged: what `version` was made from
};

// Resolves the dataset, answers `unchanged` from the run's key, else trains, stores the model, names it as the next
// version of config.name, moves models/NAME.mlx to it and ends the run. Where a run of the same key was stopped it goes
// on from its last checkpoint. Where the run to resume had other epochs, rates or another schedule, it goes on from its
// last state as a run of its own. Interrupted: makes a checkpoint, ends the run as "interrupted"
// and throws kInterrupted with the hint how to resume. NaN or Inf: ends the run as failed, kDiverged names the step.
TrainOutcome train(registry::Repository& repository, const TrainConfig& config, const TrainOptions& options,
                   Progress& progress);

}  // namespace mlx::train
