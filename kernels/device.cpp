// The host as a device, and the module of CUDA (device.h). The module is opened once and kept for the life of the
// process.
#include "kernels/device.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "kernels/kernel_module.h"
#include "kernels/table.h"

namespace mlx::kernels {
namespace {

void* allocate_on_host(std::size_t bytes) {
  return std::aligned_alloc(64, (bytes / 64 + 1) * 64);
}

void copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

struct Cuda {
  std::vector<Kernel> kernels;
  const Device* device = nullptr;
  CudaState state = CudaState::kFailed;
  std::string description;  // or why there is no device
};

constexpr const char* kNoModule = "this mlx was built without CUDA";

// What the user can do. Source of the drivers' versions: CUDA Toolkit Release Notes, "CUDA Toolkit and Corresponding
// Driver Versions"; a driver serves all minor versions of its CUDA.
std::string remedy(CudaState state) {
  const std::string otherwise = "use --device cpu, or --device auto for a GPU where there is one";
  switch (state) {
    case CudaState::kOldDriver13:
      return "install NVIDIA's driver 580 or later; or " + otherwise;
    case CudaState::kOldDriver12:
      return "install NVIDIA's driver 525 or later; or " + otherwise;
    case CudaState::kNoDriver:
      return "install NVIDIA's driver; or " + otherwise;
    default:
      return otherwise;
  }
}

Cuda open_cuda() {
  Cuda opened;
  KernelModule opened_module = open_kernel_module("mlx_cuda");
  Module& module = opened_module.module;
  const auto device = reinterpret_cast<const Device* (*)()>(module.symbol("mlx_cuda_device"));
  const auto state = reinterpret_cast<int (*)()>(module.symbol("mlx_cuda_state"));
  const auto description = reinterpret_cast<const char* (*)()>(module.symbol("mlx_cuda_description"));
  if (!module.problem.empty()) {
    opened.state = module.found ? CudaState::kFailed : CudaState::kNoModule;
    opened.description = module.found ? module.problem : fmt::format("{}: {}", kNoModule, module.problem);
    return opened;
  }
  opened.kernels = std::move(opened_module.kernels);
  opened.device = device();
  opened.state = static_cast<CudaState>(state());
  opened.description = description();
  return opened;
}

const Cuda& cuda() {
  static const Cuda opened = open_cuda();
  return opened;
}

}  // namespace

const Device& host_device() {
  static const Device device{true,
                             nullptr,
                             allocate_on_host,
                             [](void* memory) { std::free(memory); },
                             copy,
                             copy,
                             [](void* memory, std::size_t bytes) { std::memset(memory, 0, bytes); },
                             [] {
                               return static_cast<std::size_t>(sysconf(_SC_AVPHYS_PAGES)) *
                                      static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
                             },
                             nullptr,
                             []() -> const char* { return nullptr; },
                             []() -> const char* { return nullptr; }};
  return device;
}

const Device& cuda_device() {
  if (!cuda().device) throw Error(ErrorKind::kMissing, "no GPU: " + cuda().description, remedy(cuda().state));
  return *cuda().device;
}

std::string cuda_description() {
  return cuda().description;
}

CudaState cuda_state() {
  return cuda().state;
}

bool cuda_is_unusable() {
  const CudaState state = cuda_state();
  return state != CudaState::kUsable && state != CudaState::kNoModule && state != CudaState::kNoDriver &&
         state != CudaState::kNoGpu;
}

std::vector<Kernel> cuda_kernels() {
  cuda_device();
  return cuda().kernels;
}

}  // namespace mlx::kernels
