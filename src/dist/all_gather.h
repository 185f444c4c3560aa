// What every rank has, for all of them, in the middle of a computation that waits for it: few bytes, as many of each.
#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "dist/communicator.h"
#include "dist/tree_sum.h"

namespace mlx::dist {

// Fills `all` with the `own` of every rank, in their order; each sends its own to all others at once.
Traffic all_gather(Communicator& ranks, ByteView own, std::span<std::uint8_t> all);
// What each of so many ranks sends for it.
Traffic traffic_of_gather(std::int64_t bytes, int ranks);

}  // namespace mlx::dist
