#include "kernels/kernel_module.h"

#include <string_view>

#include "kernels/library_settings.h"
#include "kernels_sources.h"

namespace mlx::kernels {

KernelModule open_kernel_module(const std::string& name) {
  KernelModule opened;
  clear_library_settings();
  opened.module = open_module(name + ".so");
  if (!opened.module.handle) return opened;
  const auto sources = reinterpret_cast<const char* (*)()>(opened.module.symbol((name + "_sources").c_str()));
  const auto rows = reinterpret_cast<const Kernel* (*)(int*)>(opened.module.symbol((name + "_kernels").c_str()));
  if (!sources || std::string_view(sources()) != MLX_KERNELS_SOURCES) {
    opened.module.problem = "lib/mlx/" + name + ".so comes from another build of mlx: install both from one build";
    return opened;
  }
  if (!rows) return opened;
  int count = 0;
  const Kernel* first = rows(&count);
  opened.kernels.assign(first, first + count);
  return opened;
}

}  // namespace mlx::kernels
