// By what the turns of rotary positions are slowed in models with the scaling of Llama 3.1, which GGUF files hold as a
// tensor. Used by gguf_config.cpp and convert/gguf_metadata_writer.cpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace mlx::nn {

struct RopeFactors {
  double slow = 0, low = 0, high = 0;
  std::int64_t context = 0;
  // Of pair i of a head of width `size`.
  double at(std::int64_t i, std::int64_t size, double theta) const {
    const double turn = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(size));
    const double turns = static_cast<double>(context) * turn / (2 * std::numbers::pi);
    const double kept = std::clamp((turns - low) / (high - low), 0., 1.);
    return 1 / (kept + (1 - kept) / slow);
  }
};

}  // namespace mlx::nn
