// Training: from a config to a version and a run, with checkpoints that resume to the same bits.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dist/communicator.h"
#include "kernels/backend.h"
#include "registry/versions/runs.h"
#include "train/config/config.h"
#include "train/loop/memory.h"
#include "train/loop/profile.h"
#include "work/numerics.h"

namespace mlx::train {

struct TrainOptions {
  bool force = false;  // run even if the key is known
  bool fresh = false;  // start at the first step, even if a run of the same key has a checkpoint; implied by `force`
  std::string resume;  // a run id; "" for a new run, or a stopped one of the same key
  std::string title;   // the command as typed
  kernels::Backend backend = kernels::best_backend();
  Profiler* profiler = nullptr;                    // is told of every step; the caller reads the result
  std::int64_t memory = 0;                         // bytes that the training may take; 0: unlimited. Changes no bit.
  std::function<void(const std::string&)> tell;    // receives lines for people, such as the memory forecast
  std::function<void(const std::string&)> notice;  // receives lines that they must see: which run it continues
  std::function<void(const std::string&)> begun;   // receives the id of the run
  bool merge = false;                   // for a model with adapters: also make a version with the adapters merged
  dist::Communicator* ranks = nullptr;  // that train together; null: this one alone
  int planned_ranks = 1;                // for ask_training(), which has none
  bool encrypted = false;               // they will encrypt what they send
  bool records_only = false;            // rank 0 does not train (remote_sink.h)
  std::int64_t verify_every = 0;        // LoopOptions::verify_every
  std::vector<std::string> taken_back;  // hosts that were lost in this training and are back: for the run's record
};

struct TrainOutcome {
  bool unchanged = false;
  registry::Run run;
  registry::Version version;
  std::optional<registry::Version> adapters;  // if merged: what `version` was made from
};

// Resolves the dataset and answers `unchanged` from the run's key; otherwise trains, stores the model, names it as the
// next version of config.name, moves models/NAME.mlx to it and ends the run. Continues a stopped run of the same key
// from its last checkpoint. If the run to resume had other epochs, rates or another schedule, continues from its last
// state as a new run. If interrupted, makes a checkpoint, ends the run as "interrupted" and throws kInterrupted with a
// hint how to resume. For NaN or Inf, ends the run as failed; kDiverged names the step.
// With ranks it is for rank 0; other_rank.h is for the others.
TrainOutcome train(registry::Repository& repository, const TrainConfig& config, const TrainOptions& options,
                   Progress& progress);
// What train() would do, of which it does nothing.
struct Inquiry {
  bool known = false;               // it would be `unchanged`
  Digest dataset;                   // that it reads
  std::optional<Digest> base;       // the model that it starts from
  std::int64_t memory = 0;          // bytes that each of TrainOptions::planned_ranks takes at least, without its data
  std::vector<StageMemory> stages;  // the same for each stage; one if there is no pipeline
};
Inquiry ask_training(registry::Repository& repository, const TrainConfig& config, const TrainOptions& options,
                     Progress& progress);
// Of a training with this backend, on this machine.
work::Numerics numerics_of(kernels::Backend backend, bool portable);

}  // namespace mlx::train
