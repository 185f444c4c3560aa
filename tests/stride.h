// How far apart the steps are that a test of every step visits (each write, each byte, each call of the disk): 1, or
// MLX_TEST_STRIDE, which the runs with sanitizers set, where a step takes ten times as long.
#pragma once

#include <algorithm>
#include <cstdlib>

namespace mlx::test {

inline int stride() {
  const char* set = std::getenv("MLX_TEST_STRIDE");
  return set ? std::max(1, std::atoi(set)) : 1;
}

}  // namespace mlx::test
