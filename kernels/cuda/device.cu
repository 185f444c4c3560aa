// The GPUs that the driver shows, as devices (kernels/device.h). Each has a stream for its work and one for copies. The
// first error of each GPU is kept, with the call that returned it.
#include "kernels/device.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "kernels/cuda/library.h"
#include "kernels/cuda/module.h"

namespace mlx::kernels::cuda {
namespace {

constexpr int kLeastMajor = 8;  // compute capability: Ampere and later

// The first failure of a GPU. Empty if there was none; not changed afterwards (but see end_capture).
struct Failure {
  std::mutex mutex;
  std::array<char, 512> text{};

  // `call`: the library function that failed, or "".
  void keep(const char* what, const char* call, const char* why) {
    const std::lock_guard lock(mutex);
    if (text[0] != '\0') return;
    std::snprintf(text.data(), text.size(), "%s%s%s: %s", what, *call ? ": " : "", call, why);
  }
  const char* kept() {  // null if there was no failure
    const std::lock_guard lock(mutex);
    return text[0] == '\0' ? nullptr : text.data();
  }
  void forgive() {
    const std::lock_guard lock(mutex);
    text[0] = '\0';
  }
};

// Held under a lock, because sessions of several threads share a device.
struct Held {
  std::mutex mutex;
  std::map<void*, std::size_t> bytes;
  std::size_t sum = 0, peak = 0;
};

struct Gpu {
  Device device;
  Failure failure;
  Held held;
  std::string description;  // or why it cannot be used
  CudaState state = CudaState::kFailed;
};

Gpu& gpu_of(const Device& device) {
  return *static_cast<Gpu*>(device.own);
}

thread_local const Device* current = nullptr;  // cudaSetDevice() is per thread, too

void make_current(const Device& self) {
  if (current == &self) return;
  static_cast<void>(cudaSetDevice(self.index));
  current = &self;
}

bool good(const Device& self, cudaError_t status, const char* what) {
  if (status != cudaSuccess) gpu_of(self).failure.keep(what, "", cudaGetErrorString(status));
  return status == cudaSuccess;
}

cudaEvent_t event_of(void* event) {
  return static_cast<cudaEvent_t>(event);
}
cudaStream_t stream_of(void* on_stream) {
  return static_cast<cudaStream_t>(on_stream);
}

void* allocate(const Device& self, std::size_t bytes) {
  make_current(self);
  Held& held = gpu_of(self).held;
  void* memory = nullptr;
  if (cudaMalloc(&memory, bytes > 0 ? bytes : 1) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // running out of memory is not a lasting error
    return nullptr;
  }
  const std::lock_guard lock(held.mutex);
  held.bytes[memory] = bytes;
  held.sum += bytes;
  held.peak = std::max(held.peak, held.sum);
  return memory;
}

void release(const Device& self, void* memory) {
  if (!memory) return;
  make_current(self);
  Held& held = gpu_of(self).held;
  static_cast<void>(cudaFree(memory));
  const std::lock_guard lock(held.mutex);
  const auto found = held.bytes.find(memory);
  if (found == held.bytes.end()) return;
  held.sum -= found->second;
  held.bytes.erase(found);
}

std::size_t peak_bytes(const Device& self) {
  Held& held = gpu_of(self).held;
  const std::lock_guard lock(held.mutex);
  return held.peak;
}

// Waits: if a GPU reads the host's pages itself, the copy may still be in progress when the call returns.
void upload(const Device& self, void* to, const void* from, std::size_t bytes) {
  make_current(self);
  if (bytes == 0) return;
  good(self, cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_of(self.stream)), "a copy to the GPU");
  good(self, cudaStreamSynchronize(stream_of(self.stream)), "a copy to the GPU");
}

void download(const Device& self, void* to, const void* from, std::size_t bytes) {
  make_current(self);
  if (bytes > 0)
    good(self, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_of(self.stream)), "a copy from the GPU");
  good(self, cudaStreamSynchronize(stream_of(self.stream)), "a kernel");
}

void clear(const Device& self, void* memory, std::size_t bytes) {
  make_current(self);
  if (bytes > 0) good(self, cudaMemsetAsync(memory, 0, bytes, stream_of(self.stream)), "clearing memory of the GPU");
}

std::size_t free_bytes(const Device& self) {
  make_current(self);
  std::size_t free = 0, total = 0;
  return cudaMemGetInfo(&free, &total) == cudaSuccess ? free : 0;
}

// Launches return nothing, so their errors are queried here.
const char* problem(const Device& self) {
  make_current(self);
  good(self, cudaGetLastError(), "a launch");
  return gpu_of(self).failure.kept();
}

const char* wait(const Device& self) {
  make_current(self);
  good(self, cudaGetLastError(), "a launch");
  good(self, cudaStreamSynchronize(stream_of(self.stream)), "a kernel");
  return gpu_of(self).failure.kept();
}

void* allocate_pinned(const Device& self, std::size_t bytes) {
  make_current(self);
  void* memory = nullptr;
  if (cudaHostAlloc(&memory, bytes > 0 ? bytes : 1, cudaHostAllocDefault) == cudaSuccess) return memory;
  static_cast<void>(cudaGetLastError());  // as for device memory
  return nullptr;
}

void release_pinned(const Device&, void* memory) {
  static_cast<void>(cudaFreeHost(memory));
}

void copy(const Device& self, void* to, const void* from, std::size_t bytes, void* on_stream) {
  make_current(self);
  if (bytes > 0)
    good(self, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(on_stream)), "a copy to or from the GPU");
}

void* make_event(const Device& self) {
  make_current(self);
  cudaEvent_t event = nullptr;
  good(self, cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "an event of the GPU");
  return event;
}

void release_event(const Device&, void* event) {
  if (event) static_cast<void>(cudaEventDestroy(event_of(event)));
}

void record(const Device& self, void* event, void* on_stream) {
  make_current(self);
  good(self, cudaEventRecord(event_of(event), stream_of(on_stream)), "an event of the GPU");
}

void stream_wait_event(const Device& self, void* on_stream, void* event) {
  make_current(self);
  good(self, cudaStreamWaitEvent(stream_of(on_stream), event_of(event), 0), "an event of the GPU");
}

void await(const Device& self, void* event) {
  good(self, cudaEventSynchronize(event_of(event)), "the GPU");
}

bool occurred(const Device& self, void* event) {
  make_current(self);
  const cudaError_t status = cudaEventQuery(event_of(event));
  if (status == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());  // this is no error of a launch
    return false;
  }
  good(self, status, "a kernel");
  return true;
}

bool begin_capture(const Device& self) {
  if (gpu_of(self).failure.kept()) return false;
  make_current(self);
  if (cudaStreamBeginCapture(stream_of(self.stream), cudaStreamCaptureModeThreadLocal) == cudaSuccess) return true;
  static_cast<void>(cudaGetLastError());
  return false;
}

void* end_capture(const Device& self) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t launches = nullptr;
  if (cudaStreamEndCapture(stream_of(self.stream), &graph) != cudaSuccess ||
      cudaGraphInstantiate(&launches, graph, 0) != cudaSuccess) {
    // The launches then run one by one. What a library reported about a launch that cannot be captured is dropped.
    static_cast<void>(cudaGetLastError());
    gpu_of(self).failure.forgive();
    launches = nullptr;
  }
  if (graph) static_cast<void>(cudaGraphDestroy(graph));
  return launches;
}

void replay(const Device& self, void* graph) {
  make_current(self);
  good(self, cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), stream_of(self.stream)), "launch of a captured step");
}

void destroy_graph(const Device& self, void* graph) {
  make_current(self);
  static_cast<void>(cudaStreamSynchronize(stream_of(self.stream)));
  static_cast<void>(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)));
}

std::string version_text(int version) {  // 13000: 13.0
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

constexpr DeviceCalls kCalls{
    .make_current = make_current,
    .allocate = allocate,
    .release = release,
    .upload = upload,
    .download = download,
    .clear = clear,
    .free_bytes = free_bytes,
    .peak_bytes = peak_bytes,
    .problem = problem,
    .wait = wait,
    .begin_capture = begin_capture,
    .end_capture = end_capture,
    .replay = replay,
    .destroy_graph = destroy_graph,
    .allocate_pinned = allocate_pinned,
    .release_pinned = release_pinned,
    .copy = copy,
    .make_event = make_event,
    .release_event = release_event,
    .record = record,
    .stream_wait_event = stream_wait_event,
    .await = await,
    .occurred = occurred,
    .add = add,
    .scale = scale,
    .peers = &kPeerCalls,
};

// Returns "" and the number of GPUs in `count`, or why there is none to use. Sets `state`.
std::string count_gpus(int& count, CudaState& state) {
  int driver = 0, runtime = 0;
  static_cast<void>(cudaDriverGetVersion(&driver));
  static_cast<void>(cudaRuntimeGetVersion(&runtime));
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (driver == 0) {
    state = CudaState::kNoDriver;
    return "no CUDA driver is installed";
  }
  if (status == cudaErrorInsufficientDriver) {
    state = runtime >= 13000 ? CudaState::kOldDriver13 : CudaState::kOldDriver12;
    return "the driver is for CUDA " + version_text(driver) + ", this mlx needs " + version_text(runtime);
  }
  if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0)) state = CudaState::kNoGpu;
  if (status != cudaSuccess) return cudaGetErrorString(status);
  return count == 0 ? "the driver shows no GPU" : "";
}

// Opens its streams and sets its description, or why it cannot be used.
void open(Gpu& gpu) {
  const Device& self = gpu.device;
  int driver = 0, runtime = 0;
  static_cast<void>(cudaDriverGetVersion(&driver));
  static_cast<void>(cudaRuntimeGetVersion(&runtime));
  cudaDeviceProp properties{};
  if (!good(self, cudaGetDeviceProperties(&properties, self.index), "the GPU's properties")) {
    gpu.description = gpu.failure.kept();
    return;
  }
  std::array<char, 64> rest{};
  std::snprintf(rest.data(), rest.size(), ", compute capability %d.%d, %.0f GiB, driver ", properties.major,
                properties.minor, static_cast<double>(properties.totalGlobalMem) / (1 << 30));
  gpu.description = properties.name + std::string(rest.data()) + version_text(driver);
  if (properties.major < kLeastMajor) {
    gpu.description += ": compute capability 8.0 or later is needed";
    return;
  }
  cudaStream_t work = nullptr, copies = nullptr, peers = nullptr;
  current = nullptr;
  if (!good(self, cudaSetDevice(self.index), "the GPU") ||
      !good(self, cudaStreamCreateWithFlags(&work, cudaStreamNonBlocking), "a stream of the GPU") ||
      !good(self, cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking), "a stream of the GPU") ||
      !good(self, cudaStreamCreateWithFlags(&peers, cudaStreamNonBlocking), "a stream of the GPU")) {
    gpu.description = gpu.failure.kept();
    return;
  }
  current = &self;
  gpu.device.stream = work;
  gpu.device.copy_stream = copies;
  gpu.device.peer_stream = peers;
  gpu.description += ", CUDA " + version_text(runtime) + ", " + library_versions();
  gpu.state = CudaState::kUsable;
}

bool launches_block() {
  const char* blocking = std::getenv("CUDA_LAUNCH_BLOCKING");
  return blocking && std::string_view(blocking) == "1";
}

struct Gpus {
  std::mutex mutex;
  int count = 0;
  std::string why_none;
  CudaState state = CudaState::kFailed;
  std::map<int, std::unique_ptr<Gpu>> opened;
};

// Opens a GPU on first use. Null for a number that the driver does not show.
Gpu* gpu_at(int index) {
  static Gpus gpus;
  static const bool counted = [] {
    gpus.why_none = count_gpus(gpus.count, gpus.state);
    return true;
  }();
  static_cast<void>(counted);
  const std::lock_guard lock(gpus.mutex);
  if (index != 0 && (index < 0 || index >= gpus.count)) return nullptr;
  std::unique_ptr<Gpu>& gpu = gpus.opened[index];
  if (gpu) return gpu.get();
  gpu = std::make_unique<Gpu>();
  gpu->device = {.calls = &kCalls, .host = false, .index = index, .own = gpu.get()};
  if (gpus.why_none.empty()) {
    gpu->device.blocks_launches = launches_block();
    open(*gpu);
  } else {
    gpu->description = gpus.why_none;
    gpu->state = gpus.state;
  }
  return gpu.get();
}

}  // namespace

const Device* device_at(int index) {
  const Gpu* const gpu = gpu_at(index);
  return gpu && gpu->state == CudaState::kUsable ? &gpu->device : nullptr;
}

void report(const char* operation, const char* call, const char* why) {
  const cudaError_t status = cudaGetLastError();
  Gpu& gpu = current ? gpu_of(*current) : *gpu_at(0);
  gpu.failure.keep(operation, call, status == cudaSuccess ? why : cudaGetErrorString(status));
}

int current_index() {
  return current ? current->index : 0;
}

CudaState device_state() {
  return gpu_at(0)->state;
}

const char* gpus() {
  static const std::string all = [] {
    std::string out;
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess) return out;
    for (int i = 0; i < count; ++i) {
      cudaDeviceProp properties{};
      if (cudaGetDeviceProperties(&properties, i) != cudaSuccess) continue;
      std::array<char, 3> digits{};
      for (const char byte : properties.uuid.bytes) {
        std::snprintf(digits.data(), digits.size(), "%02x", static_cast<unsigned>(static_cast<unsigned char>(byte)));
        out += digits.data();
      }
      out += std::string(" ") + properties.name + "\n";
    }
    return out;
  }();
  return all.c_str();
}

const char* description() {
  return gpu_at(0)->description.c_str();
}

}  // namespace mlx::kernels::cuda
