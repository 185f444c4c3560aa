// Where a training tells what happens, and where it finds its last state again. The training loop knows nothing else of
// the world: on one machine the repository is behind it (repository_sink.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "train/checkpoint.h"

namespace mlx::train {

// One thread calls it.
class RunSink {
 public:
  virtual ~RunSink() = default;
  // Once, before the first step: `step` steps are done already. What was told of later ones before no longer counts.
  virtual void begin(std::int64_t step) = 0;
  virtual void log_metric(std::int64_t step, std::string name, double value) = 0;
  // A step is done, and its metrics are told. Comes between any two steps, so it should be cheap.
  virtual void end_step() = 0;
  // May return before the state is stored. A checkpoint that cannot be kept costs safety and not the training: the one
  // before stays, and if the lost one was the best the next one counts as the best.
  virtual void save_checkpoint(CheckpointState state, bool best) = 0;
  // Returns when the last checkpoint is stored; whether it is kept.
  virtual bool wait_for_checkpoint() = 0;
  // The last one of this run that is kept; of an earlier process, too, where the run is resumed.
  virtual std::optional<CheckpointState> last_checkpoint() = 0;
  // The training is over, well or badly: what was told is kept when this returns.
  virtual void end() = 0;
};

}  // namespace mlx::train
