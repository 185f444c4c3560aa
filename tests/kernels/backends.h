// The backends that tests go through: those with kernels of our own that this machine has, the best of all, and a
// GPU's. Where tests are built beside the emulated module, that is the GPU.
#pragma once

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "kernels/device.h"
#include "kernels/table.h"

namespace mlx::kernels::test {

inline bool has_gpu() {
  try {
    cuda_device();
    return true;
  } catch (const Error&) {
    return false;
  }
}

// The best whose kernels are all our own.
inline Backend own_backend() {
  for (const char* name : {"avx512", "avx2"})
    if (problem_of(backend_named(name)).empty()) return backend_named(name);
  return backend_named("ref");
}

inline std::vector<Backend> backends() {
  std::vector<Backend> all = {backend_named("ref"), backend_named("avx2"), best_backend()};
  std::erase_if(all, [](const Backend& backend) { return !problem_of(backend).empty(); });
  all.erase(std::unique(all.begin(), all.end()), all.end());
  if (has_gpu()) all.push_back(cuda_backend());
  return all;
}

}  // namespace mlx::kernels::test
