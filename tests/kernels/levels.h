// The levels whose kernels are this project's own and that this machine has, with the best of all and a GPU's. Where
// tests are built beside the emulated module, that is the GPU.
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

inline std::vector<Level> levels() {
  std::vector<Level> all = {Level::kRef, std::min(Level::kAvx2, best_level()), best_level()};
  all.erase(std::unique(all.begin(), all.end()), all.end());
  if (has_gpu()) all.push_back(Level::kCuda);
  return all;
}

}  // namespace mlx::kernels::test
