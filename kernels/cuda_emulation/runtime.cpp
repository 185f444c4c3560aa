// The emulated driver (cuda_runtime.h in this folder): devices whose memory is the host's. MLX_EMULATED_GPU_COUNT sets
// their number (default 2), of which CUDA_VISIBLE_DEVICES chooses some by number. MLX_EMULATED_GPU_NAME is their model.
// To test failures:
//   MLX_EMULATED_GPU_BYTES     memory of each device
//   MLX_EMULATED_GPU_PINNED    host memory that can be pinned
//   MLX_EMULATED_GPU_FAILS_AT  the launch that fails, counted from 1
//   MLX_EMULATED_GPU_DRIVER    the driver's version, 0 for none
//   MLX_EMULATED_GPU_CAPTURE   where captures fail: "begin", "launch" (within them) or "end"
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda_emulation/cuda_runtime.h"
#include "kernels/cuda_emulation/streams.h"

namespace {

constexpr int kVersion = 13000;

std::size_t setting(const char* name, std::size_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

struct Memory {
  std::map<const void*, std::size_t> blocks;
  std::size_t total = 0, used = 0;

  cudaError_t allocate(void** memory, std::size_t bytes) {
    if (bytes > total - used) return cudaErrorMemoryAllocation;
    *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    blocks[*memory] = bytes;
    used += bytes;
    return cudaSuccess;
  }
  void release(void* memory) {
    const auto found = blocks.find(memory);
    if (found == blocks.end()) return;  // null
    used -= found->second;
    blocks.erase(found);
    std::free(memory);
  }
  bool holds(const void* address) const {
    const auto behind = blocks.upper_bound(address);
    if (behind == blocks.begin()) return false;
    const auto& [begin, bytes] = *std::prev(behind);
    return address < static_cast<const char*>(begin) + bytes;
  }
};

constexpr int kMostDevices = 8;

// The numbers of the devices that are shown. As of a real driver, the first number that there is none of ends them.
std::vector<int> visible_devices() {
  const int count = static_cast<int>(std::min<std::size_t>(setting("MLX_EMULATED_GPU_COUNT", 2), kMostDevices));
  std::vector<int> all;
  const char* chosen = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!chosen) {
    for (int i = 0; i < count; ++i) all.push_back(i);
    return all;
  }
  std::istringstream words(chosen);
  for (std::string word; std::getline(words, word, ',');) {
    char* end = nullptr;
    const long number = std::strtol(word.c_str(), &end, 10);
    if (word.empty() || *end != '\0' || number < 0 || number >= count) break;
    all.push_back(static_cast<int>(number));
  }
  return all;
}

struct Driver {
  std::mutex mutex;
  std::vector<int> visible = visible_devices();
  int count = static_cast<int>(visible.size());
  std::vector<Memory> own{static_cast<std::size_t>(count),
                          Memory{.total = setting("MLX_EMULATED_GPU_BYTES", std::size_t{16} << 30)}};
  Memory pinned{.total = setting("MLX_EMULATED_GPU_PINNED", std::size_t{1} << 30)};
  std::size_t launches = 0, fails_at = setting("MLX_EMULATED_GPU_FAILS_AT", 0);
  int version = static_cast<int>(setting("MLX_EMULATED_GPU_DRIVER", kVersion));
  std::atomic<bool> failed = false;  // permanently, as after a fault on a GPU
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
using SharedLaunches = std::shared_ptr<const Launches>;  // owned also by launches that have not run yet
thread_local Launches* captured = nullptr;               // where this thread's launches go during a capture
thread_local int current = 0;                            // this thread's device
thread_local cudaError_t misuse = cudaSuccess;           // by this thread, since it last asked

Memory& memory_here() {
  return driver().own[static_cast<std::size_t>(current)];
}

bool capture_fails(const char* where) {
  const char* wanted = std::getenv("MLX_EMULATED_GPU_CAPTURE");
  return wanted && std::strcmp(wanted, where) == 0;
}

cudaError_t state() {
  return driver().failed ? cudaErrorLaunchFailure : cudaSuccess;
}

// True for device or pinned memory: it is copied when the stream reaches the copy.
bool reached(const void* address) {
  Driver& d = driver();
  const std::lock_guard lock(d.mutex);
  return d.pinned.holds(address) ||
         std::ranges::any_of(d.own, [&](const Memory& memory) { return memory.holds(address); });
}

void run(const Launch& launch) {
  Driver& d = driver();
  if (++d.launches == d.fails_at) d.failed = true;
  const cudaLaunchConfig_t& config = launch.config;
  if (!d.failed) mlx::emulation::run_grid(config.gridDim, config.blockDim.x, config.dynamicSmemBytes, launch.thread);
}

}  // namespace

int mlx::emulation::current_device() {
  return current;
}

bool mlx::emulation::is_in_device(const void* address) {
  const std::lock_guard lock(driver().mutex);
  return memory_here().holds(address);
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
  }
  return "unknown error";
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = std::exchange(misuse, cudaSuccess);
  return driver().failed ? cudaErrorLaunchFailure : error;
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
  *count = driver().count;
  return driver().version < kVersion ? cudaErrorInsufficientDriver : cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= driver().count) return cudaErrorInvalidDevice;
  *properties = {};
  const char* name = std::getenv("MLX_EMULATED_GPU_NAME");
  std::snprintf(properties->name, sizeof properties->name, "%s", name ? name : "emulated GPU");
  properties->uuid.bytes[0] = static_cast<char>(driver().visible[static_cast<std::size_t>(device)] + 1);
  properties->totalGlobalMem = driver().own[0].total;
  properties->major = 9;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= driver().count) return cudaErrorInvalidDevice;
  current = device;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const std::lock_guard lock(driver().mutex);
  *free = memory_here().total - memory_here().used;
  *total = memory_here().total;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  const std::lock_guard lock(driver().mutex);
  return memory_here().allocate(memory, bytes);
}
cudaError_t cudaFree(void* memory) {
  mlx::emulation::finish_all();
  const std::lock_guard lock(driver().mutex);
  for (Memory& own : driver().own) own.release(memory);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  const std::lock_guard lock(driver().mutex);
  return driver().pinned.allocate(memory, bytes);
}
cudaError_t cudaFreeHost(void* memory) {
  mlx::emulation::finish_all();
  const std::lock_guard lock(driver().mutex);
  driver().pinned.release(memory);
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  std::memcpy(to, from, bytes);
  return state();
}
// Host memory that is not pinned is copied before the call returns.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  if (reached(from)) {
    mlx::emulation::ask(stream, [=] { std::memcpy(to, from, bytes); });
  } else {
    const auto* first = static_cast<const char*>(from);
    mlx::emulation::ask(stream, [to, staged = std::vector<char>(first, first + bytes)] {
      std::memcpy(to, staged.data(), staged.size());
    });
  }
  if (!reached(to)) mlx::emulation::finish(stream);
  return state();
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  mlx::emulation::ask(stream, [=] { std::memset(memory, value, bytes); });
  return state();
}

// Handles point to the captured launches; a graph's handle points to its own copy.
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  if (capture_fails("begin")) return cudaErrorStreamCaptureUnsupported;
  captured = new Launches;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  *graph = reinterpret_cast<cudaGraph_t>(captured);
  captured = nullptr;
  return capture_fails("launch") ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* launches, cudaGraph_t graph, unsigned long long) {
  if (capture_fails("end")) return cudaErrorStreamCaptureInvalidated;
  auto* shared = new SharedLaunches(new Launches(*reinterpret_cast<const Launches*>(graph)));
  *launches = reinterpret_cast<cudaGraphExec_t>(shared);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete reinterpret_cast<Launches*>(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t launches, cudaStream_t stream) {
  const auto replay = [shared = *reinterpret_cast<const SharedLaunches*>(launches)] {
    for (const Launch& launch : *shared) run(launch);
  };
  mlx::emulation::ask(stream, replay, &mlx::emulation::Counts::replays);
  return state();
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t launches) {
  delete reinterpret_cast<SharedLaunches*>(launches);
  return cudaSuccess;
}

// As on a GPU, fails if the stream belongs to another device than the thread's current one.
cudaError_t mlx_launch(const cudaLaunchConfig_t& config, const std::function<void()>& thread) {
  if (mlx::emulation::device_of(config.stream) != current) return misuse = cudaErrorInvalidResourceHandle;
  if (captured) {
    if (capture_fails("launch")) return cudaErrorStreamCaptureUnsupported;
    captured->push_back({config, thread});
    return cudaSuccess;
  }
  const auto run_it = [launch = Launch{config, thread}] { run(launch); };
  mlx::emulation::ask(config.stream, run_it, &mlx::emulation::Counts::launches);
  return state();
}
