// Finds where a training's numbers stopped being finite. Used by the training loop.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "data/batches.h"
#include "train/loop/checkpoint.h"
#include "train/loop/training_step.h"

namespace mlx::train {

// The origin of the first number that was not finite.
struct Origin {
  std::int64_t step = 0;  // counted from 1
  graph::NotFinite what;
};

// The batch of a step, counted from 0; valid until the next call.
using BatchOf = std::function<const data::BatchView&(std::int64_t step)>;
using RateOf = std::function<double(std::int64_t step)>;

// Runs step `step` again, node by node. If it ran to its end (`done`, or on a GPU) it has overwritten its initial
// state. Then training is repeated up to it from `good`, a state in which everything is finite; the same steps give the
// same bits. nullopt if nothing is found.
std::optional<Origin> find_origin(TrainingStep& training, const CheckpointState& good, std::int64_t step, bool done,
                                  const BatchOf& batch_of, const RateOf& rate_of, Progress& progress);

// "conv2 (conv2d) was the first to become non-finite, at step 12", or "" for nullopt.
std::string describe(const std::optional<Origin>& origin);

}  // namespace mlx::train
