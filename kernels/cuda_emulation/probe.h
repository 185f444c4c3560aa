// Questions that a test may ask the emulated driver. It finds the functions by name in the opened module.
#pragma once

#include <cstddef>

namespace mlx::emulation {

struct Counts {              // since the module was opened
  std::size_t launches = 0;  // kernels launched one by one
  std::size_t replays = 0;   // of captured graphs
  std::size_t waits = 0;     // in which the host waited for unfinished work
};

}  // namespace mlx::emulation

extern "C" void mlx_emulation_counts(mlx::emulation::Counts* counts);
// With `first`, all streams but the first one do their work at once, before the first stream does its remaining work.
// Without it, the default, all streams wait until they must.
extern "C" void mlx_emulation_copies_first(bool first);
