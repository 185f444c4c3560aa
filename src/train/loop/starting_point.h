// Where a training starts. Used by the training loop.
#pragma once

#include <cstdint>

#include "nn/family.h"
#include "train/config/config.h"
#include "train/loop/training_loop.h"

namespace mlx::train {

// The initial state of a run: its last checkpoint, else another run's, else fresh weights. Throws kUsage if another run
// to continue from has done more than all steps.
CheckpointState starting_point(const TrainConfig& config, const nn::Built& built, const LoopOptions& options,
                               RunSink& sink, std::int64_t total_steps);

}  // namespace mlx::train
