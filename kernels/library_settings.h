// Environment variables that oneDNN, cuBLAS and cuDNN read by themselves. Used by kernel_module.cpp.
#pragma once

#include <string_view>

namespace mlx::kernels {

// Whether a library takes it for more than what it prints: DNNL_MAX_CPU_ISA, NVIDIA_TF32_OVERRIDE.
bool is_library_setting(std::string_view variable);

// Removes them from the environment, before a library is loaded that reads them: they change the bits of results, and
// no run's key holds them. What the kernels are to do, mlx's own options and variables say.
void clear_library_settings();

}  // namespace mlx::kernels
