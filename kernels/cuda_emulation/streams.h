// Streams and events of the emulated driver, and what a test may ask of them. Used by kernels/cuda_emulation; tests
// find the functions below by name in the opened module.
#pragma once

#include <cstddef>
#include <functional>

#include "kernels/cuda_emulation/cuda_runtime.h"

namespace mlx::emulation {

struct Counts {              // since the module was opened
  std::size_t launches = 0;  // of kernels that were asked for one by one
  std::size_t replays = 0;   // of what was captured
  std::size_t waits = 0;     // in which the host waited for something that was not done yet
};

// `work` happens behind what the stream was asked for before, when someone waits for it; counted as `counted`.
void ask(cudaStream_t stream, std::function<void()> work, std::size_t Counts::*counted = nullptr);
void finish(cudaStream_t stream);  // the host waits for it
void finish_all();                 // as memory is given back

}  // namespace mlx::emulation

extern "C" void mlx_emulation_counts(mlx::emulation::Counts* counts);
// From now on all streams but the first that was made do at once what they are asked for, before the first does what it
// still has to do; false, as it is at the beginning: they all wait until they must.
extern "C" void mlx_emulation_copies_first(bool first);
