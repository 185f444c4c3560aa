// What this process uses of the machine, and what the machine has.
#pragma once

#include <cstdint>

namespace mlx {

double cpu_seconds();  // of all threads so far, user and system
// The machine's memory in bytes, or less where a control group or ulimit(1) says so.
std::int64_t machine_memory();
std::int64_t peak_memory();       // the most bytes that were resident at once
std::int64_t available_memory();  // of machine_memory(): bytes that no process holds
std::int64_t resident_memory();   // bytes now; 0 where /proc does not say
// The same, after giving freed memory back to the system. From then on large blocks go back as soon as they are freed,
// so that what is resident is what is in use.
std::int64_t settled_memory();

}  // namespace mlx
