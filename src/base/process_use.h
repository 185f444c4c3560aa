// What this process takes of the machine: for a run's record.
#pragma once

#include <cstdint>

namespace mlx {

double cpu_seconds();  // of all threads so far, user and system
// Bytes that processes may take together here: of the machine, or what its control group or ulimit(1) leave of it.
std::int64_t machine_memory();
std::int64_t peak_memory();      // bytes that were resident at once, at most
std::int64_t resident_memory();  // bytes now; 0 where /proc does not say
// The same, once all that was freed has been given back to the system; from then on what is large is as soon as it is
// freed, so that what is taken is what is in use.
std::int64_t settled_memory();

}  // namespace mlx
