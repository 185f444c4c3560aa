// What a test may ask of the emulated driver: it finds the functions by name in the opened module.
#pragma once

#include <cstddef>

namespace mlx::emulation {

struct Counts {              // since the module was opened
  std::size_t launches = 0;  // of kernels that were asked for one by one
  std::size_t replays = 0;   // of what was captured
  std::size_t waits = 0;     // in which the host waited for something that was not done yet
};

}  // namespace mlx::emulation

extern "C" void mlx_emulation_counts(mlx::emulation::Counts* counts);
// From now on all streams but the first that was made do at once what they are asked for, before the first does what it
// still has to do; false, as it is at the beginning: they all wait until they must.
extern "C" void mlx_emulation_copies_first(bool first);
