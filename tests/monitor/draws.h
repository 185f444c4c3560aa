// The same draws everywhere: distributions of the standard library differ. Used by the tests and by tests/bench.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>

namespace mlx::monitor::test {

class Draws {
 public:
  explicit Draws(std::uint64_t seed) : bits_(seed) {}
  double uniform() { return (static_cast<double>(bits_() >> 11) + 0.5) * 0x1p-53; }
  double normal() { return std::sqrt(-2 * std::log(uniform())) * std::cos(6.283185307179586 * uniform()); }

 private:
  std::mt19937_64 bits_;
};

}  // namespace mlx::monitor::test
