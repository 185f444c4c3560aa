// What a step has done, as metrics of the run and in the sums of its epoch. Used by the training loop.
#pragma once

#include <cstdint>

#include "train/config/config.h"
#include "train/loop/checkpoint.h"
#include "train/loop/run_sink.h"
#include "train/loop/training_step.h"

namespace mlx::train {

// The share of predictions that are right, of those that count.
double share_of(std::int64_t correct, std::int64_t counted);

// `outcome`: of all ranks, of the step after which so many steps are done.
void log_outcome(RunSink& sink, EpochSums& epoch, const TrainConfig& config, const TrainingStep& training,
                 std::int64_t step, double learning_rate, const StepOutcome& outcome);

}  // namespace mlx::train
