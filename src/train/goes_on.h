// When a training may go on from the state of another run, as a run of its own. Used by trainer.cpp.
#pragma once

#include <optional>

#include "base/hash.h"
#include "registry/runs.h"

namespace mlx::train {

inline constexpr const char* kCheckpointInput = "checkpoint";  // role of the input of a run that went on from another

// kConflict naming what differs, where `start` is not the training that `run` was but for how long, how fast and how
// exactly it goes on: epochs, the schedule and its rates, clip, decay and momenta, precision, numerics, what is kept.
void check_goes_on(const registry::Run& run, const registry::RunStart& start);
// The checkpoint that the run itself went on from.
std::optional<Digest> checkpoint_input(const registry::Run& run);
// The run's last checkpoint, or the one that it began with; kConflict where there is none.
Digest last_checkpoint(registry::Repository& repository, const registry::Run& run);

}  // namespace mlx::train
