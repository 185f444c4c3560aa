// How far ranks' clocks are apart, so that events of several hosts stand in one trace.
#pragma once

#include "dist/communicator.h"

namespace mlx::dist {

// What to add to this rank's seconds_now() to get rank 0's. The error is at most half of the fastest of some round
// trips: tens of microseconds. All ranks call it.
double clock_offset(Communicator& ranks);

}  // namespace mlx::dist
