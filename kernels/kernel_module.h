// A module with rows of the kernel table: lib/mlx/NAME.so. It exports NAME_kernels and NAME_sources, which identifies
// its build. Used for oneDNN and CUDA.
#pragma once

#include <string>
#include <vector>

#include "base/module.h"
#include "kernels/kernel.h"

namespace mlx::kernels {

struct KernelModule {
  Module module;                // its problem tells why there are no kernels; else empty
  std::vector<Kernel> kernels;  // their addresses stay valid
};

// The sources define the kernels' types and results. So a module that was built from other sources than this executable
// is opened, recognised by NAME_sources, and not used.
KernelModule open_kernel_module(const std::string& name);

}  // namespace mlx::kernels
