// Environment variables that oneDNN, cuBLAS and cuDNN read by themselves. Used by kernel_module.cpp.
#pragma once

#include <string_view>

namespace mlx::kernels {

// True if the library reads this variable for more than its output: DNNL_MAX_CPU_ISA, NVIDIA_TF32_OVERRIDE.
bool is_library_setting(std::string_view variable);

// Removes these variables from the environment before the libraries are loaded: they change the bits of results, and no
// run's key includes them. mlx's own options and variables control the kernels.
void clear_library_settings();

}  // namespace mlx::kernels
