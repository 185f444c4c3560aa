// What lib/mlx/mlx_cuda.so is made of. Used by kernels/cuda only.
#pragma once

#include "kernels/device.h"

namespace mlx::kernels::cuda {

const Device* first_device();  // null if there is none; description() says why
const char* description();     // valid for as long as the module is loaded
// Keeps for Device::wait that a library's call went wrong, unless something has before: "linear: cublasLtMatmul: …".
// Of any thread; neither allocates nor throws.
void report(const char* operation, const char* call, const char* why);

}  // namespace mlx::kernels::cuda
