// A device: where a session's tensors are and how to access them. It is the host's memory, or a GPU's through
// lib/mlx/mlx_cuda.so, which is opened on first use. Used by sessions, tests and benchmarks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/kernel.h"

namespace mlx::kernels {

struct Device;

// What a device sends to another rank's, and gets from it in the same exchange. Either may be nothing.
struct PeerMessage {
  int other = 0;  // rank
  const float* leaves = nullptr;
  std::int64_t leaving = 0;  // elements
  float* arrives = nullptr;
  std::int64_t arriving = 0;
};

inline constexpr std::size_t kPeerId = 128;  // bytes

// Messages between the memories of devices of several processes, one of each: NCCL. Functions return null, or the
// problem with the call that has it, which is valid until this thread's next call. Two ranks agree on the order of
// their messages; there are no tags.
struct PeerCalls {
  const char* (*missing)();                  // why there are no such messages here
  const char* (*make_id)(std::uint8_t* id);  // kPeerId bytes, which one rank makes and all join with
  // Waits until all ranks have joined.
  const char* (*join)(const Device& self, const std::uint8_t* id, int rank, int ranks, void** peers);
  // Requests messages, all at once, on Device::peer_stream.
  const char* (*exchange)(const Device& self, void* peers, const PeerMessage* messages, int count);
  const char* (*problem)(const Device& self, void* peers);  // of messages that were requested; does not wait
  void (*leave)(const Device& self, void* peers);           // all messages are done
  void (*abort)(const Device& self, void* peers);           // ends those that are not
};

// The functions of one kind of device. None of them throws: the device keeps errors, which `problem` and `wait` report.
// `self` is the device to use. The host's functions take effect at once.
struct DeviceCalls {
  // Call before this thread prepares or launches kernels on it. Holds until another device is made current.
  void (*make_current)(const Device& self);
  void* (*allocate)(const Device& self, std::size_t bytes);  // at least 64-byte aligned; null if there is no more
  void (*release)(const Device& self, void* memory);
  void (*upload)(const Device& self, void* to, const void* from, std::size_t bytes);    // `from` may change afterwards
  void (*download)(const Device& self, void* to, const void* from, std::size_t bytes);  // waits for earlier work
  void (*clear)(const Device& self, void* memory, std::size_t bytes);                   // zeros
  std::size_t (*free_bytes)(const Device& self);
  std::size_t (*peak_bytes)(const Device& self);  // the most that this process has held at once; 0 for the host
  const char* (*problem)(const Device& self);     // null, or the known error; does not wait
  const char* (*wait)(const Device& self);        // waits until `stream` is done; null, or the error

  // Between begin_capture and end_capture only launches are requested, and none of them runs. `replay` launches the
  // result of end_capture as a whole, any number of times, until destroy_graph. If the launches cannot be captured,
  // begin_capture returns false or end_capture null; this is not an error.
  bool (*begin_capture)(const Device& self);
  void* (*end_capture)(const Device& self);
  void (*replay)(const Device& self, void* graph);
  void (*destroy_graph)(const Device& self, void* graph);

  // Page-locked host memory, which the device copies to and from by itself; null if there is no more. It is released
  // once no copy uses it.
  void* (*allocate_pinned)(const Device& self, std::size_t bytes);
  void (*release_pinned)(const Device& self, void* memory);
  // Copies between device memory and device or pinned memory. Nobody else touches either side until an event recorded
  // after the copy has occurred. Other host memory works too, but the call may wait for the copy.
  void (*copy)(const Device& self, void* to, const void* from, std::size_t bytes, void* stream);
  // An event occurs when the stream has done all work requested before the event was last recorded; at once if it was
  // never recorded.
  void* (*make_event)(const Device& self);
  void (*release_event)(const Device& self, void* event);
  void (*record)(const Device& self, void* event, void* stream);
  void (*stream_wait_event)(const Device& self, void* stream, void* event);  // work requested later on the stream waits
  void (*await)(const Device& self, void* event);                            // the host waits
  bool (*occurred)(const Device& self, void* event);                         // does not wait; true after an error, too

  // sum += term, and to = factor * from, of f32 in device memory.
  void (*add)(const Device& self, float* sum, const float* term, std::int64_t count, void* stream);
  void (*scale)(const Device& self, float* to, const float* from, float factor, std::int64_t count, void* stream);

  const PeerCalls* peers;  // null if the device has no such messages: the host
};

// Memory and ordered work. A GPU has three streams; each does its work in order. All calls use `stream` unless they
// name another one; events order them.
struct Device {
  const DeviceCalls* calls = nullptr;
  bool host = true;             // its memory is the host's: pointers may be dereferenced
  int index = 0;                // among the devices of its kind
  void* stream = nullptr;       // for Args; null for the host
  void* copy_stream = nullptr;  // null for the host
  void* peer_stream = nullptr;  // null for the host
  void* own = nullptr;          // the device's internal state
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
  bool occurred(void* event) const { return calls->occurred(*this, event); }
  void add(float* sum, const float* term, std::int64_t count, void* on) const {
    calls->add(*this, sum, term, count, on);
  }
  void scale(float* to, const float* from, float factor, std::int64_t count, void* on) const {
    calls->scale(*this, to, from, factor, count, on);
  }
};

const Device& host_device();
// The GPUs that the driver shows, counted from 0 (CUDA_VISIBLE_DEVICES selects them). Throws kMissing, with the reason,
// if there is none: built without CUDA, no driver, no GPU, no GPU with that number.
const Device& cuda_device(int index = 0);
// "NVIDIA H200, compute capability 9.0, 140 GiB, driver 13.0", or the reason why there is none ("no CUDA driver"): part
// of the output of `version -v`. Never throws.
std::string cuda_description();
// The GPUs that the driver shows, by number: an id that no other GPU has, a space, and the model. Throws kMissing as
// cuda_device() does.
std::vector<std::string> cuda_gpus();
// Whether there is a GPU, or why it cannot be used. The CUDA module returns these numbers, so they must not change.
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
// True if CUDA is present but unusable: the module is damaged, the driver is too old, the GPU fails. False if the GPU
// can be used, and on a machine without CUDA or a GPU. cuda_description() gives the reason. Never throws.
bool cuda_is_unusable();

}  // namespace mlx::kernels
