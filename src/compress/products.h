// Products of a few rows of calibration data with a layer's weights, exact and rounded: how much rounding changes the
// layer's output. Used by layer_by_layer.cpp and awq.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/parallel.h"
#include "compress/rounding.h"
#include "kernels/backend.h"

namespace mlx::compress {

// What computes them.
struct Engine {
  kernels::Backend backend;
  Pool& pool;
};

// y[rows][outputs] of x[rows][inputs], without a bias. `weights` is f32.
std::vector<float> product(std::span<const float> x, const std::shared_ptr<const graph::Weight>& weights,
                           const Engine& engine);
std::vector<float> product(std::span<const float> x, const SharedLayer& layer, const Engine& engine);

// The root of |rounded - exact|² over |exact|²; 0 if both are 0.
double relative_error(std::span<const float> exact, std::span<const float> rounded);

}  // namespace mlx::compress
