// Checkpoints: everything of a session that outlives a step, and the step, as a manifest of checkpoint.json and
// state.safetensors (mlx-format-checkpoint(5)). Data cursor, schedule and random numbers follow from the step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "graph/graph.h"
#include "registry/runs.h"

namespace mlx::train {

struct CheckpointState {
  std::int64_t step = 0;  // steps that are done
  graph::Tensors tensors;
};

// Durable when it returns; the run keeps the last two and the best.
void save_checkpoint(registry::Repository& repository, const std::string& run, const Digest& key,
                     const CheckpointState& state, bool best);
// The latest of the run that was made with `key`; nullopt where it has none. kCorrupt where it cannot be read.
std::optional<CheckpointState> load_checkpoint(registry::Repository& repository, const std::string& run,
                                               const Digest& key);

}  // namespace mlx::train
