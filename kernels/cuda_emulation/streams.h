// Streams of the emulated driver. Used by kernels/cuda_emulation only.
#pragma once

#include <cstddef>
#include <functional>

#include "kernels/cuda_emulation/cuda_runtime.h"
#include "kernels/cuda_emulation/probe.h"

namespace mlx::emulation {

int current_device();                // of this thread (cudaSetDevice)
int device_of(cudaStream_t stream);  // the one that was current when the stream was made

// `work` happens behind what the stream was asked for before, when someone waits for it; counted as `counted`.
void ask(cudaStream_t stream, std::function<void()> work, std::size_t Counts::*counted = nullptr);
void finish(cudaStream_t stream);  // the host waits for it
void finish_all();                 // as memory is given back

}  // namespace mlx::emulation
