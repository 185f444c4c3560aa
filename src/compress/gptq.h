// GPTQ (Frantar et al. 2023, arXiv:2210.17323): rounds the inputs of a layer one after another, and changes the weights
// of those that are still to come so that they make up for the error of the output on calibration data. Inputs come in
// the order of their squares, the largest first, which the stored form allows because the scales of groups and
// blocks are chosen before, from the weights as they were. Used by layer_by_layer.cpp.
#pragma once

#include <span>
#include <string>

#include "compress/hessian.h"
#include "compress/weight_type.h"

namespace mlx::compress {

inline constexpr double kDampening = 0.01;

// `importance`: of each input, for the scales. Outputs do not depend on one another, and each sum has one order: the
// same bits for any number of threads. Throws kCorrupt as round_as().
RoundedLayer gptq(const graph::Weight& weights, const std::string& name, const InverseFactor& factor,
                  std::span<const float> importance, const WeightType& type, Pool& pool);

}  // namespace mlx::compress
