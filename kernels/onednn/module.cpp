// The exports of lib/mlx/mlx_onednn.so: its rows of the kernel table, and the version of the library that it loaded.
// The table opens the module. The module needs no symbol of the executable and lets no exception escape.
#include <array>
#include <cstdio>
#include <string>

#include "kernels/onednn/conv.h"
#include "kernels/onednn/linear.h"
#include "kernels_sources.h"

namespace onednn = mlx::kernels::onednn;

extern "C" const mlx::kernels::Kernel* mlx_onednn_kernels(int* count) {
  static const std::array<mlx::kernels::Kernel, 6> kernels{
      onednn::kLinearKernel, onednn::kLinearBackwardDataKernel, onednn::kLinearBackwardWeightsKernel,
      onednn::kConvKernel,   onednn::kConvBackwardDataKernel,   onednn::kConvBackwardWeightsKernel,
  };
  *count = static_cast<int>(kernels.size());
  return kernels.data();
}

extern "C" const char* mlx_onednn_sources() {
  return MLX_KERNELS_SOURCES;
}

// "2.6.3-<commit>, isa 0xe7"; isa is what oneDNN takes this CPU for (dnnl_cpu_isa_t). Valid while the module is loaded.
extern "C" const char* mlx_onednn_version() {
  static const std::string version = [] {
    const dnnl_version_t* v = dnnl_version();
    char isa[16];
    std::snprintf(isa, sizeof isa, "0x%x", static_cast<unsigned>(dnnl_get_effective_cpu_isa()));
    return std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch) + "-" + v->hash +
           ", isa " + isa;
  }();
  return version.c_str();
}
