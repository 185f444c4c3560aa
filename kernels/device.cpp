// The host as a device, and the CUDA module (device.h). The module is opened once and kept until the process ends.
#include "kernels/device.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "kernels/backend_row.h"
#include "kernels/kernel_module.h"

namespace mlx::kernels {
namespace {

void* allocate_on_host(std::size_t bytes) {
  return std::aligned_alloc(64, (bytes / 64 + 1) * 64);
}

void copy_on_host(const Device&, void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

struct Cuda {
  std::vector<Kernel> kernels;
  const Device* (*device)(int index) = nullptr;  // null if there is no GPU to use
  const char* (*gpus)() = nullptr;               // one a line
  CudaState state = CudaState::kFailed;
  std::string description;  // or why there is no device
};

constexpr const char* kNoModule = "this mlx was built without CUDA";

// A hint for the user. Source of the driver versions: CUDA Toolkit Release Notes, "CUDA Toolkit and Corresponding
// Driver Versions"; a driver supports all minor versions of its CUDA.
std::string remedy(CudaState state) {
  const std::string otherwise = "use --device cpu, or --device auto for a GPU if there is one";
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
  const auto device = reinterpret_cast<const Device* (*)(int)>(module.symbol("mlx_cuda_device"));
  const auto state = reinterpret_cast<int (*)()>(module.symbol("mlx_cuda_state"));
  const auto description = reinterpret_cast<const char* (*)()>(module.symbol("mlx_cuda_description"));
  const auto gpus = reinterpret_cast<const char* (*)()>(module.symbol("mlx_cuda_gpus"));
  if (!module.problem.empty()) {
    opened.state = module.found ? CudaState::kFailed : CudaState::kNoModule;
    opened.description = module.found ? module.problem : fmt::format("{}: {}", kNoModule, module.problem);
    return opened;
  }
  opened.kernels = std::move(opened_module.kernels);
  if (device(0)) opened.device = device;
  opened.gpus = gpus;
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
  static const DeviceCalls calls{
      .make_current = [](const Device&) {},
      .allocate = [](const Device&, std::size_t bytes) { return allocate_on_host(bytes); },
      .release = [](const Device&, void* memory) { std::free(memory); },
      .upload = copy_on_host,
      .download = copy_on_host,
      .clear = [](const Device&, void* memory, std::size_t bytes) { std::memset(memory, 0, bytes); },
      .free_bytes =
          [](const Device&) {
            return static_cast<std::size_t>(sysconf(_SC_AVPHYS_PAGES)) *
                   static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
          },
      .peak_bytes = [](const Device&) { return std::size_t{0}; },
      .problem = [](const Device&) -> const char* { return nullptr; },
      .wait = [](const Device&) -> const char* { return nullptr; },
      .begin_capture = [](const Device&) { return false; },
      .end_capture = [](const Device&) -> void* { return nullptr; },
      .replay = [](const Device&, void*) {},
      .destroy_graph = [](const Device&, void*) {},
      .allocate_pinned = [](const Device&, std::size_t bytes) { return allocate_on_host(bytes); },
      .release_pinned = [](const Device&, void* memory) { std::free(memory); },
      .copy = [](const Device& self, void* to, const void* from, std::size_t bytes,
                 void*) { copy_on_host(self, to, from, bytes); },
      .make_event = [](const Device&) -> void* { return nullptr; },
      .release_event = [](const Device&, void*) {},
      .record = [](const Device&, void*, void*) {},
      .stream_wait_event = [](const Device&, void*, void*) {},
      .await = [](const Device&, void*) {},
      .occurred = [](const Device&, void*) { return true; },
      .add =
          [](const Device&, float* sum, const float* term, std::int64_t count, void*) {
            for (std::int64_t i = 0; i < count; ++i) sum[i] += term[i];
          },
      .scale =
          [](const Device&, float* to, const float* from, float factor, std::int64_t count, void*) {
            for (std::int64_t i = 0; i < count; ++i) to[i] = factor * from[i];
          },
      .peers = nullptr,
  };
  static const Device device{.calls = &calls};
  return device;
}

const Device& cuda_device(int index) {
  const std::string& description = cuda().description;
  if (!cuda().device) throw Error(ErrorKind::kMissing, "no GPU: " + description, remedy(cuda().state));
  if (const Device* device = cuda().device(index)) return *device;
  throw Error(ErrorKind::kMissing, fmt::format("no GPU {}: {}", index, description),
              "nvidia-smi lists the GPUs; CUDA_VISIBLE_DEVICES chooses among them");
}

std::string cuda_description() {
  return cuda().description;
}

std::vector<std::string> cuda_gpus() {
  cuda_device();
  std::istringstream lines(cuda().gpus());
  std::vector<std::string> out;
  for (std::string line; std::getline(lines, line);) out.push_back(line);
  return out;
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
