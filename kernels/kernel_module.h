// A module that has rows of the kernel table: lib/mlx/NAME.so, which exports NAME_kernels and, to be told apart from
// one of another build, NAME_sources. Used for oneDNN and CUDA.
#pragma once

#include <string>
#include <vector>

#include "base/module.h"
#include "kernels/kernel.h"

namespace mlx::kernels {

struct KernelModule {
  Module module;                // its problem says why there are no kernels; empty where there are
  std::vector<Kernel> kernels;  // their addresses stay
};

// Types and results of kernels are those of their sources: a module that was made of others than this executable is
// opened, asked for that, and not used.
KernelModule open_kernel_module(const std::string& name);

}  // namespace mlx::kernels
