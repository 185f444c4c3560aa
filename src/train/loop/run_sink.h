// What a training reports to, and where it finds its last state. It is all that the training loop knows of its
// environment. On one machine the repository implements it (repository_sink.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "train/loop/checkpoint.h"

namespace mlx::train {

// Called by one thread.
class RunSink {
 public:
  virtual ~RunSink() = default;
  // Called once, before the first step: `step` steps are done already. Earlier reports on later steps no longer count.
  virtual void begin(std::int64_t step) = 0;
  virtual void log_metric(std::int64_t step, std::string name, double value) = 0;
  // A step is done, and its metrics are reported. Called between any two steps, so it should be cheap.
  virtual void end_step() = 0;
  // May return before the state is stored, but not before its late tensors are made, each once and in the order of
  // their names. If a checkpoint cannot be kept, the training continues with less safety: the previous one stays, and
  // if the lost one was the best, the next one counts as the best.
  virtual void save_checkpoint(CheckpointState state, bool best) = 0;
  // Returns when the last checkpoint is stored; true if it is kept.
  virtual bool wait_for_checkpoint() = 0;
  // The last kept checkpoint of this run, even one of an earlier process if the run is resumed.
  virtual std::optional<CheckpointState> last_checkpoint() = 0;
  // The training is over, whether it succeeded or failed. Everything reported is kept when this returns.
  virtual void end() = 0;
};

}  // namespace mlx::train
