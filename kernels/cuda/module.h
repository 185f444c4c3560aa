// The parts of lib/mlx/mlx_cuda.so. Used by kernels/cuda only.
#pragma once

#include "kernels/device.h"

namespace mlx::kernels::cuda {

// The GPU with this number; null if there is none or it cannot be used.
const Device* device_at(int index);
const char* description();  // of the first GPU, or why it cannot be used; valid while the module is loaded
CudaState device_state();   // of the first
const char* gpus();         // all that the driver shows, one a line (kernels::cuda_gpus())
int current_index();        // the GPU that this thread has made current; 0 if it has made none
// Records for Device::wait that a library call failed on this thread's current device, unless an earlier failure is
// recorded: "linear: cublasLtMatmul: …". Neither allocates nor throws.
void report(const char* operation, const char* call, const char* why);

// Of DeviceCalls (peers.cu).
void add(const Device& self, float* sum, const float* term, std::int64_t count, void* stream);
void scale(const Device& self, float* to, const float* from, float factor, std::int64_t count, void* stream);
extern const PeerCalls kPeerCalls;

}  // namespace mlx::kernels::cuda
