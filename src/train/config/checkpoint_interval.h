// How often a training makes a checkpoint: every so many epochs, steps or seconds. The result does not depend on it.
#pragma once

#include <cstdint>
#include <string>

#include "base/json_fwd.h"
#include "base/toml.h"

namespace mlx::train {

struct CheckpointInterval {
  double epochs = 1;       // 0 if one of the others is set
  std::int64_t steps = 0;  // the same
  double seconds = 0;      // the same
};

// `checkpoint_every` of [train]: a number of epochs, or text such as "200 steps", "5 min", "2 epochs".
// `table` is what `train` reads.
CheckpointInterval read_checkpoint_interval(TomlReader& train, const TomlNode& table);
// True if a checkpoint is due after `step` steps; `seconds` have passed since the last one.
bool is_due(const CheckpointInterval& interval, std::int64_t step, std::int64_t steps_per_epoch, double seconds);
// After one of the steps that follow `before`, up to `step`.
bool is_due_after(const CheckpointInterval& interval, std::int64_t before, std::int64_t step,
                  std::int64_t steps_per_epoch, double seconds);

}  // namespace mlx::train
