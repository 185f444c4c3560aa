// One GPU as a device (kernels/device.h): the first that the driver shows (CUDA_VISIBLE_DEVICES chooses), with a stream
// for its work and one for copies beside it. The first error stays, with the call that met it.
#include "kernels/device.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>

#include "kernels/cuda/library.h"
#include "kernels/cuda/module.h"

namespace mlx::kernels::cuda {
namespace {

constexpr int kLeastMajor = 8;  // compute capability: Ampere and later

// What first went wrong in this process; empty while all is well, and not changed afterwards (but see end_capture).
struct Failure {
  std::mutex mutex;
  std::array<char, 512> text{};
};
Failure first_failure;
std::string description_text;

// `call`: the library's function that failed, "" for none.
void keep(const char* what, const char* call, const char* why) {
  const std::lock_guard lock(first_failure.mutex);
  auto& text = first_failure.text;
  if (text[0] != '\0') return;
  std::snprintf(text.data(), text.size(), "%s%s%s: %s", what, *call ? ": " : "", call, why);
}
const char* kept() {  // null while all is well
  const std::lock_guard lock(first_failure.mutex);
  return first_failure.text[0] == '\0' ? nullptr : first_failure.text.data();
}

void forgive() {
  const std::lock_guard lock(first_failure.mutex);
  first_failure.text[0] = '\0';
}

bool good(cudaError_t status, const char* what) {
  if (status != cudaSuccess) keep(what, "", cudaGetErrorString(status));
  return status == cudaSuccess;
}

cudaStream_t stream = nullptr, copy_stream = nullptr;

cudaEvent_t event_of(void* event) {
  return static_cast<cudaEvent_t>(event);
}
cudaStream_t stream_of(void* on_stream) {
  return static_cast<cudaStream_t>(on_stream);
}

// What is held, under a lock: sessions of several threads share the device.
struct Held {
  std::mutex mutex;
  std::map<void*, std::size_t> bytes;
  std::size_t sum = 0, peak = 0;
};
Held held;

void* allocate(std::size_t bytes) {
  void* memory = nullptr;
  if (cudaMalloc(&memory, bytes > 0 ? bytes : 1) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // too little memory is no error that stays
    return nullptr;
  }
  const std::lock_guard lock(held.mutex);
  held.bytes[memory] = bytes;
  held.sum += bytes;
  held.peak = std::max(held.peak, held.sum);
  return memory;
}

void release(void* memory) {
  if (!memory) return;
  static_cast<void>(cudaFree(memory));
  const std::lock_guard lock(held.mutex);
  const auto found = held.bytes.find(memory);
  if (found == held.bytes.end()) return;
  held.sum -= found->second;
  held.bytes.erase(found);
}

std::size_t peak_bytes() {
  const std::lock_guard lock(held.mutex);
  return held.peak;
}

// Waits: if a GPU reads the host's pages itself, the copy may still be running when the call returns.
void upload(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  good(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream), "a copy to the GPU");
  good(cudaStreamSynchronize(stream), "a copy to the GPU");
}

void download(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) good(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream), "a copy from the GPU");
  good(cudaStreamSynchronize(stream), "a kernel");
}

void clear(void* memory, std::size_t bytes) {
  if (bytes > 0) good(cudaMemsetAsync(memory, 0, bytes, stream), "clearing memory of the GPU");
}

std::size_t free_bytes() {
  std::size_t free = 0, total = 0;
  return cudaMemGetInfo(&free, &total) == cudaSuccess ? free : 0;
}

// Launches return nothing: this asks for their errors.
const char* problem() {
  good(cudaGetLastError(), "a launch");
  return kept();
}

const char* wait() {
  good(cudaGetLastError(), "a launch");
  good(cudaStreamSynchronize(stream), "a kernel");
  return kept();
}

void* allocate_pinned(std::size_t bytes) {
  void* memory = nullptr;
  if (cudaHostAlloc(&memory, bytes > 0 ? bytes : 1, cudaHostAllocDefault) == cudaSuccess) return memory;
  static_cast<void>(cudaGetLastError());  // as of the device's memory
  return nullptr;
}

void release_pinned(void* memory) {
  static_cast<void>(cudaFreeHost(memory));
}

void copy(void* to, const void* from, std::size_t bytes, void* on_stream) {
  if (bytes > 0)
    good(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(on_stream)), "a copy to or from the GPU");
}

void* make_event() {
  cudaEvent_t event = nullptr;
  good(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "an event of the GPU");
  return event;
}

void release_event(void* event) {
  if (event) static_cast<void>(cudaEventDestroy(event_of(event)));
}

void record(void* event, void* on_stream) {
  good(cudaEventRecord(event_of(event), stream_of(on_stream)), "an event of the GPU");
}

void hold_back(void* on_stream, void* event) {
  good(cudaStreamWaitEvent(stream_of(on_stream), event_of(event), 0), "an event of the GPU");
}

void await(void* event) {
  good(cudaEventSynchronize(event_of(event)), "the GPU");
}

bool begin_capture() {
  if (kept()) return false;
  if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess) return true;
  static_cast<void>(cudaGetLastError());
  return false;
}

void* end_capture() {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t launches = nullptr;
  if (cudaStreamEndCapture(stream, &graph) != cudaSuccess || cudaGraphInstantiate(&launches, graph, 0) != cudaSuccess) {
    // They are then launched one by one: the error of a launch that cannot be captured is dropped.
    static_cast<void>(cudaGetLastError());
    forgive();
    launches = nullptr;
  }
  if (graph) static_cast<void>(cudaGraphDestroy(graph));
  return launches;
}

void replay(void* captured) {
  good(cudaGraphLaunch(static_cast<cudaGraphExec_t>(captured), stream), "launch of a captured step");
}

void forget(void* captured) {
  static_cast<void>(cudaStreamSynchronize(stream));
  static_cast<void>(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(captured)));
}

std::string version_text(int version) {  // 13000: 13.0
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// "" or why there is no device to use.
std::string open_first() {
  int driver = 0, runtime = 0, count = 0;
  static_cast<void>(cudaDriverGetVersion(&driver));
  static_cast<void>(cudaRuntimeGetVersion(&runtime));
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (driver == 0) return "no CUDA driver is installed";
  if (status == cudaErrorInsufficientDriver)
    return "the driver is for CUDA " + version_text(driver) + ", this mlx needs " + version_text(runtime);
  if (status != cudaSuccess) return cudaGetErrorString(status);
  if (count == 0) return "the driver shows no GPU";
  cudaDeviceProp properties{};
  if (!good(cudaGetDeviceProperties(&properties, 0), "the GPU's properties")) return kept();
  std::array<char, 64> rest{};
  std::snprintf(rest.data(), rest.size(), ", compute capability %d.%d, %.0f GiB, driver ", properties.major,
                properties.minor, static_cast<double>(properties.totalGlobalMem) / (1 << 30));
  description_text = properties.name + std::string(rest.data()) + version_text(driver);
  if (properties.major < kLeastMajor) return description_text + ": compute capability 8.0 or later is needed";
  if (!good(cudaSetDevice(0), "the GPU") ||
      !good(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream of the GPU") ||
      !good(cudaStreamCreateWithFlags(&copy_stream, cudaStreamNonBlocking), "a stream of the GPU"))
    return kept();
  description_text += ", CUDA " + version_text(runtime) + ", " + library_versions();
  return {};
}

}  // namespace

const Device* first_device() {
  static const std::string why_not = open_first();
  static const Device device{
      false,           stream,         allocate, release,       upload,        download, clear,     free_bytes,
      peak_bytes,      problem,        wait,     begin_capture, end_capture,   replay,   forget,    copy_stream,
      allocate_pinned, release_pinned, copy,     make_event,    release_event, record,   hold_back, await};
  if (!why_not.empty()) description_text = why_not;
  return why_not.empty() ? &device : nullptr;
}

void report(const char* operation, const char* call, const char* why) {
  const cudaError_t status = cudaGetLastError();
  keep(operation, call, status == cudaSuccess ? why : cudaGetErrorString(status));
}

const char* description() {
  first_device();
  return description_text.c_str();
}

}  // namespace mlx::kernels::cuda
