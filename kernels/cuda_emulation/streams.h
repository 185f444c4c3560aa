// Streams of the emulated driver. Used by kernels/cuda_emulation only.
#pragma once

#include <cstddef>
#include <functional>

#include "kernels/cuda_emulation/cuda_runtime.h"
#include "kernels/cuda_emulation/probe.h"

namespace mlx::emulation {

int current_device();                    // that this thread has set (cudaSetDevice)
bool is_in_device(const void* address);  // in the memory of that device
int device_of(cudaStream_t stream);      // that was current when the stream was made

// Queues `work` on the stream; it is done when somebody waits for it, and counted in `counted`.
void ask(cudaStream_t stream, std::function<void()> work, std::size_t Counts::*counted = nullptr);
void finish(cudaStream_t stream);  // the host waits for it
void finish_all();                 // called when memory is freed

}  // namespace mlx::emulation
