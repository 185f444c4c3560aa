// Where the tensors of a session lie and how they are reached: the host's memory, or a GPU's through
// lib/mlx/mlx_cuda.so, which is opened when a command first asks for it. Used by sessions, tests and benchmarks.
#pragma once

#include <cstddef>
#include <string>

#include "kernels/kernel.h"

namespace mlx::kernels {

struct Device;

// What a kind of device does. None of these throws: what went wrong stays with the device, and `problem` and `wait`
// tell it. `self` is the device that is asked. The host's calls do at once what they say.
struct DeviceCalls {
  // Before this thread prepares or launches kernels of it; holds until another device is made current.
  void (*make_current)(const Device& self);
  void* (*allocate)(const Device& self, std::size_t bytes);  // at least 64-byte aligned; null if there is no more
  void (*release)(const Device& self, void* memory);
  void (*upload)(const Device& self, void* to, const void* from, std::size_t bytes);    // `from` may change afterwards
  void (*download)(const Device& self, void* to, const void* from, std::size_t bytes);  // waits for earlier work
  void (*clear)(const Device& self, void* memory, std::size_t bytes);                   // zeros
  std::size_t (*free_bytes)(const Device& self);
  std::size_t (*peak_bytes)(const Device& self);  // the most that this process has held at once; 0 for the host
  const char* (*problem)(const Device& self);     // null, or what is known to have gone wrong; does not wait
  const char* (*wait)(const Device& self);        // until all of `stream` is done; null, or what has gone wrong

  // Between begin_capture and end_capture nothing but launches is asked for, and none of them happens. What end_capture
  // returns is launched as one by `replay`, any number of times, until destroy_graph. If they cannot be captured, the
  // first returns false or the second null, and nothing has gone wrong.
  bool (*begin_capture)(const Device& self);
  void* (*end_capture)(const Device& self);
  void (*replay)(const Device& self, void* graph);
  void (*destroy_graph)(const Device& self, void* graph);

  // Page-locked memory of the host, which the device copies from and to by itself; null if there is no more. It is
  // released once no copy uses it.
  void* (*allocate_pinned)(const Device& self, std::size_t bytes);
  void (*release_pinned)(const Device& self, void* memory);
  // Between memory of the device and memory of the device or pinned memory. Nobody else touches either side until an
  // event recorded behind the copy has come. Other memory of the host serves too: then the call may wait for the copy.
  void (*copy)(const Device& self, void* to, const void* from, std::size_t bytes, void* stream);
  // An event comes when all work is done that the stream was asked for before the event was last recorded; at once if
  // it never was.
  void* (*make_event)(const Device& self);
  void (*release_event)(const Device& self, void* event);
  void (*record)(const Device& self, void* event, void* stream);
  void (*stream_wait_event)(const Device& self, void* stream, void* event);  // work that the stream is asked for later
  void (*await)(const Device& self, void* event);                            // the host waits
};

// Memory and an order of work. A GPU has two streams; each does what it is asked in that order. All calls use `stream`
// unless they name `copy_stream`; events order the two.
struct Device {
  const DeviceCalls* calls = nullptr;
  bool host = true;             // its memory is the host's: pointers may be followed
  int index = 0;                // among the devices of its kind
  void* stream = nullptr;       // for Args; null for the host
  void* copy_stream = nullptr;  // null for the host
  void* own = nullptr;          // the kind's state of this device
  bool blocks_launches =
      false;  // CUDA_LAUNCH_BLOCKING=1: each launch is waited for, so that an error names its operation

  void make_current() const { calls->make_current(*this); }
  void* allocate(std::size_t bytes) const { return calls->allocate(*this, bytes); }
  void release(void* memory) const { calls->release(*this, memory); }
  void upload(void* to, const void* from, std::size_t bytes) const { calls->upload(*this, to, from, bytes); }
  void download(void* to, const void* from, std::size_t bytes) const { calls->download(*this, to, from, bytes); }
  void clear(void* memory, std::size_t bytes) const { calls->clear(*this, memory, bytes); }
  std::size_t free_bytes() const { return calls->free_bytes(*this); }
  std::size_t peak_bytes() const { return calls->peak_bytes(*this); }
  const char* problem() const { return calls->problem(*this); }
  const char* wait() const { return calls->wait(*this); }
  bool begin_capture() const { return calls->begin_capture(*this); }
  void* end_capture() const { return calls->end_capture(*this); }
  void replay(void* graph) const { calls->replay(*this, graph); }
  void destroy_graph(void* graph) const { calls->destroy_graph(*this, graph); }
  void* allocate_pinned(std::size_t bytes) const { return calls->allocate_pinned(*this, bytes); }
  void release_pinned(void* memory) const { calls->release_pinned(*this, memory); }
  void copy(void* to, const void* from, std::size_t bytes, void* on) const { calls->copy(*this, to, from, bytes, on); }
  void* make_event() const { return calls->make_event(*this); }
  void release_event(void* event) const { calls->release_event(*this, event); }
  void record(void* event, void* on) const { calls->record(*this, event, on); }
  void stream_wait_event(void* on, void* event) const { calls->stream_wait_event(*this, on, event); }
  void await(void* event) const { calls->await(*this, event); }
};

const Device& host_device();
// The GPUs that the driver shows, counted from 0 (CUDA_VISIBLE_DEVICES chooses them). kMissing saying why there is
// none: built without CUDA, no driver, no GPU, no GPU of that number.
const Device& cuda_device(int index = 0);
// "NVIDIA H200, compute capability 9.0, 140 GiB, driver 13.0"; where there is none, why ("no CUDA driver"): part of
// what `version -v` says. Never throws.
std::string cuda_description();
// Whether there is a GPU, and why it cannot be used. The module of CUDA answers with one of these: keep their numbers.
enum class CudaState : int {
  kUsable = 0,
  kNoModule = 1,     // a build without CUDA
  kNoDriver = 2,     // no driver is installed
  kNoGpu = 3,        // the driver shows no GPU
  kOldDriver12 = 4,  // the driver is too old for CUDA 12
  kOldDriver13 = 5,  // the driver is too old for CUDA 13
  kFailed = 6,       // the module is damaged or of another build, or the GPU failed or is too old
};
CudaState cuda_state();  // never throws
// Whether CUDA is here and cannot be used: the module is damaged, the driver is too old, the GPU fails. False if the
// GPU can be used, and on a machine without CUDA or a GPU. cuda_description() gives the reason. Never throws.
bool cuda_is_unusable();

}  // namespace mlx::kernels
