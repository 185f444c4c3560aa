// What who takes a GPU only where there is one has to know of a machine where none can be used.
#pragma once

namespace mlx::kernels {

// Whether CUDA is here and something is wrong with it: the module is damaged or of another build, the driver is too
// old, the GPU is. False where there is a device, and where there is simply none: a build without CUDA, a machine
// without a driver, a driver without a GPU. cuda_description() says what it is. Never throws.
bool cuda_is_unusable();

}  // namespace mlx::kernels
