// When a training may continue from the state of another run, as a new run. Used by trainer.cpp.
#pragma once

#include <optional>

#include "base/hash.h"
#include "registry/versions/runs.h"
#include "work/work.h"

namespace mlx::train {

inline constexpr const char* kCheckpointInput = "checkpoint";  // input role, if a run continued from another
void check_goes_on(const registry::Run& run, const work::Work& work);
// The checkpoint that the run itself continued from.
std::optional<Digest> checkpoint_input(const registry::Run& run);
// The run's last checkpoint, or the one that it started from. Throws kConflict if there is none.
Digest last_checkpoint(registry::Repository& repository, const registry::Run& run);

}  // namespace mlx::train
