// oneDNN's rows of the kernel table. The module is opened once, on first use; plans hold the addresses of its kernels.
#include <string>
#include <utility>

#include "kernels/backend_row.h"
#include "kernels/kernel_module.h"

namespace mlx::kernels {
namespace {

struct OneDnn {
  std::vector<Kernel> kernels;
  std::string version;
  std::string problem;  // why it cannot be used; empty if it can
};

OneDnn open_onednn() {
  OneDnn opened;
  KernelModule opened_module = open_kernel_module("mlx_onednn");
  Module& module = opened_module.module;
  const auto version = reinterpret_cast<const char* (*)()>(module.symbol("mlx_onednn_version"));
  opened.problem = module.problem;
  if (!opened.problem.empty()) return opened;
  opened.kernels = std::move(opened_module.kernels);
  opened.version = version();
  return opened;
}

const OneDnn& onednn() {
  static const OneDnn module = open_onednn();
  return module;
}

}  // namespace

std::vector<Kernel> onednn_kernels() {
  return onednn().kernels;
}

std::string onednn_module_problem() {
  return onednn().problem;
}

std::string onednn_version() {
  return onednn().version;
}

}  // namespace mlx::kernels
