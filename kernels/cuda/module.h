// What lib/mlx/mlx_cuda.so is made of. Used by kernels/cuda only.
#pragma once

#include "kernels/device.h"

namespace mlx::kernels::cuda {

const Device* first_device();  // null where there is none; description() says why
const char* description();     // valid for as long as the module is loaded

}  // namespace mlx::kernels::cuda
