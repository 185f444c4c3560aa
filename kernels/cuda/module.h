// What lib/mlx/mlx_cuda.so is made of. Used by kernels/cuda only.
#pragma once

#include "kernels/device.h"

namespace mlx::kernels::cuda {

// The GPU of that number; null if there is none or it cannot be used.
const Device* device_at(int index);
const char* description();  // of the first, or why it cannot be used; valid for as long as the module is loaded
CudaState device_state();   // of the first
int current_index();        // which GPU this thread has made current; 0 before it has made any
// Keeps for Device::wait that a library's call went wrong on this thread's current device, unless something has before:
// "linear: cublasLtMatmul: …". Neither allocates nor throws.
void report(const char* operation, const char* call, const char* why);

}  // namespace mlx::kernels::cuda
