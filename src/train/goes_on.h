// When a training may go on from the state of another run, as a run of its own. Used by trainer.cpp.
#pragma once

#include <optional>

#include "base/hash.h"
#include "registry/versions/runs.h"
#include "work/work.h"

namespace mlx::train {

inline constexpr const char* kCheckpointInput = "checkpoint";  // role of the input of a run that went on from another

// kConflict where `work` is another training than `run` was; the error names what differs. How long and how fast it
// goes on is free: epochs, the schedule and its rates, clip, decay and momenta, what is kept. So is the precision,
// which each device chooses for itself, where the run was computed with other numerics.
void check_goes_on(const registry::Run& run, const work::Work& work);
// The checkpoint that the run itself went on from.
std::optional<Digest> checkpoint_input(const registry::Run& run);
// The run's last checkpoint, or the one that it began with; kConflict where there is none.
Digest last_checkpoint(registry::Repository& repository, const registry::Run& run);

}  // namespace mlx::train
