// The stride of tests that visit every step (each write, each byte, each disk call): 1, or MLX_TEST_STRIDE, which runs
// with sanitizers set, because a step takes ten times as long there.
#pragma once

#include <algorithm>
#include <cstdlib>

namespace mlx::test {

inline int stride() {
  const char* set = std::getenv("MLX_TEST_STRIDE");
  return set ? std::max(1, std::atoi(set)) : 1;
}

}  // namespace mlx::test
