// The emulated driver (cuda_runtime.h here): one device whose memory is the host's. For tests of what goes wrong:
// MLX_EMULATED_GPU_BYTES is how much memory it has, MLX_EMULATED_GPU_FAILS_AT the launch that fails, counted from 1,
// MLX_EMULATED_GPU_DRIVER the driver's version, 0 for none.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include "kernels/cuda_emulation/cuda_runtime.h"

namespace {

constexpr int kVersion = 13000;

std::size_t setting(const char* name, std::size_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

struct Driver {
  std::mutex mutex, running;
  std::map<void*, std::size_t> blocks;
  std::size_t total = setting("MLX_EMULATED_GPU_BYTES", std::size_t{16} << 30), used = 0;
  std::size_t launches = 0, fails_at = setting("MLX_EMULATED_GPU_FAILS_AT", 0);
  int version = static_cast<int>(setting("MLX_EMULATED_GPU_DRIVER", kVersion));
  bool failed = false;  // for good, as after a fault on a GPU
};

Driver& driver() {
  static Driver only;
  return only;
}

struct Launch {
  cudaLaunchConfig_t config;
  std::function<void()> thread;
};
using Launches = std::vector<Launch>;
thread_local Launches* captured = nullptr;  // where this thread's launches go while it captures

cudaError_t state() {
  return driver().failed ? cudaErrorLaunchFailure : cudaSuccess;
}

}  // namespace

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
  }
  return "unknown error";
}

cudaError_t cudaGetLastError() {
  return state();
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = driver().version;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = kVersion;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return driver().version < kVersion ? cudaErrorInsufficientDriver : cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "emulated GPU");
  properties->totalGlobalMem = driver().total;
  properties->major = 9;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) {
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const std::lock_guard lock(driver().mutex);
  *free = driver().total - driver().used;
  *total = driver().total;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = nullptr;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return state();
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  Driver& d = driver();
  const std::lock_guard lock(d.mutex);
  if (bytes > d.total - d.used) return cudaErrorMemoryAllocation;
  *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  d.blocks[*memory] = bytes;
  d.used += bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  Driver& d = driver();
  const std::lock_guard lock(d.mutex);
  const auto found = d.blocks.find(memory);
  if (found == d.blocks.end()) return cudaSuccess;  // null
  d.used -= found->second;
  d.blocks.erase(found);
  std::free(memory);
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  std::memcpy(to, from, bytes);
  return state();
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t) {
  return cudaMemcpy(to, from, bytes, kind);
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t) {
  std::memset(memory, value, bytes);
  return state();
}

// Handles are pointers to what was captured; a graph and what is instantiated from it are copies of each other.
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  captured = new Launches;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  *graph = reinterpret_cast<cudaGraph_t>(captured);
  captured = nullptr;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* launches, cudaGraph_t graph, unsigned long long) {
  *launches = reinterpret_cast<cudaGraphExec_t>(new Launches(*reinterpret_cast<const Launches*>(graph)));
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete reinterpret_cast<Launches*>(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t launches, cudaStream_t) {
  for (const Launch& launch : *reinterpret_cast<const Launches*>(launches)) {
    const cudaError_t status = mlx_launch(launch.config, launch.thread);
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t launches) {
  delete reinterpret_cast<Launches*>(launches);
  return cudaSuccess;
}

cudaError_t mlx_launch(const cudaLaunchConfig_t& config, const std::function<void()>& thread) {
  if (captured) {
    captured->push_back({config, thread});
    return cudaSuccess;
  }
  Driver& d = driver();
  const std::lock_guard lock(d.running);
  if (++d.launches == d.fails_at) d.failed = true;
  if (d.failed) return cudaErrorLaunchFailure;
  mlx::emulation::run_grid(config.gridDim, config.blockDim.x, config.dynamicSmemBytes, thread);
  return cudaSuccess;
}
