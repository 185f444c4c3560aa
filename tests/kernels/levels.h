// The levels whose kernels are this project's own and that this machine has, with the best of all.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/table.h"

namespace mlx::kernels::test {

inline std::vector<Level> levels() {
  std::vector<Level> all = {Level::kRef, std::min(Level::kAvx2, best_level()), best_level()};
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

}  // namespace mlx::kernels::test
