// Where the tensors of a session lie and how they are reached: the host's memory, or a GPU's through
// lib/mlx/mlx_cuda.so, which is opened when a command first asks for it. Used by sessions, tests and benchmarks.
#pragma once

#include <cstddef>
#include <string>

#include "kernels/kernel.h"

namespace mlx::kernels {

// Of a GPU, everything happens in the order it was asked for, on `stream`. None of these throws; what went wrong stays
// and is told by `wait`.
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
  const char* (*wait)() = nullptr;        // until all is done; null, or what has gone wrong
  // Null on the host. Between the first two nothing but launches is asked for, and none of them happens; what comes of
  // it (null where it could not be captured) is launched as one by `replay`, any number of times, until `forget`.
  void (*begin_capture)() = nullptr;
  void* (*end_capture)() = nullptr;
  void (*replay)(void* captured) = nullptr;
  void (*forget)(void* captured) = nullptr;
};

const Device& host_device();
// kMissing saying why there is none: built without CUDA, no driver, no GPU.
const Device& cuda_device();
// "NVIDIA H200, compute capability 9.0, 140 GiB, driver 13.0"; where there is none, why ("no CUDA driver"): part of
// what `version -v` says. Never throws.
std::string cuda_description();

}  // namespace mlx::kernels
