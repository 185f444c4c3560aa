// Finds the rank that computes other bits than its replicas: a faulty CPU or memory, or another build.
#pragma once

#include <cstdint>

#include "base/hash.h"
#include "dist/communicator.h"

namespace mlx::dist {

// `own`: the hash of what all ranks have after `step`, or those that give the same `part`. Throws kCorrupt, on every
// rank, if they do not have the same; it names those that differ from most, or all ranks of the part if no hash is that
// of more than half.
void check_replicas(Communicator& ranks, const Digest& own, std::int64_t step, int part = 0);

}  // namespace mlx::dist
