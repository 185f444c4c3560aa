// Where the tensors of a session lie and how they are reached: the host's memory, or a GPU's through
// lib/mlx/mlx_cuda.so, which is opened when a command first asks for it. Used by sessions, tests and benchmarks.
#pragma once

#include <cstddef>
#include <string>

#include "kernels/kernel.h"

namespace mlx::kernels {

// A GPU has two streams, on each of which everything happens in the order it was asked for, and nobody waits for it but
// who says so: `stream`, on which all happens that names no other, and `copy_stream` beside it, whose order with the
// first events decide. None of these throws; what went wrong stays and is told by `problem` and `wait`.
struct Device {
  bool host = true;                                // its memory is the host's: pointers may be followed
  void* stream = nullptr;                          // for Args
  void* (*allocate)(std::size_t bytes) = nullptr;  // at least 64-byte aligned; null where there is no more
  void (*release)(void* memory) = nullptr;
  void (*upload)(void* to, const void* from, std::size_t bytes) = nullptr;    // `from` may change once it returns
  void (*download)(void* to, const void* from, std::size_t bytes) = nullptr;  // waits for what was asked before
  void (*clear)(void* memory, std::size_t bytes) = nullptr;                   // zeros
  std::size_t (*free_bytes)() = nullptr;
  std::size_t (*peak_bytes)() = nullptr;  // the most that this process has held at once; null on the host
  const char* (*problem)() = nullptr;     // null, or what is known to have gone wrong; does not wait
  const char* (*wait)() = nullptr;        // until all of `stream` is done; null, or what has gone wrong
  // Null on the host. Between the first two nothing but launches is asked for, and none of them happens; what comes of
  // it is launched as one by `replay`, any number of times, until `forget`. Where they cannot be captured, the first
  // returns false or the second null, and nothing has gone wrong.
  bool (*begin_capture)() = nullptr;
  void* (*end_capture)() = nullptr;
  void (*replay)(void* captured) = nullptr;
  void (*forget)(void* captured) = nullptr;

  // Copies that nobody waits for; all of these are null on the host.
  void* copy_stream = nullptr;
  // Page-locked memory of the host, which the GPU copies from and to by itself; null where there is no more. It is
  // given back once no copy uses it.
  void* (*allocate_pinned)(std::size_t bytes) = nullptr;
  void (*release_pinned)(void* memory) = nullptr;
  // Between memory of the device and memory of the device or pinned memory. Until an event behind it has come neither
  // side is touched by anyone else. Other memory of the host serves too: then it may wait until the copy is made.
  void (*copy)(void* to, const void* from, std::size_t bytes, void* on_stream) = nullptr;
  // An event comes when everything is done that `on_stream` was asked for before it was last recorded; at once where it
  // never was.
  void* (*make_event)() = nullptr;
  void (*release_event)(void* event) = nullptr;
  void (*record)(void* event, void* on_stream) = nullptr;
  void (*hold_back)(void* on_stream, void* event) = nullptr;  // what is asked for from now on until the event comes
  void (*await)(void* event) = nullptr;                       // the host waits

  bool blocks_launches =
      false;  // CUDA_LAUNCH_BLOCKING=1: each launch is waited for, so that an error names its operation
};

const Device& host_device();
// kMissing saying why there is none: built without CUDA, no driver, no GPU.
const Device& cuda_device();
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
