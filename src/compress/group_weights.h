// The pass from a language model to one whose linear layers have weights of four or eight bits in groups, each with a
// scale of its own (kernels/op_list.h, kLinearGroups). Needs no data: weights are rounded to the nearest (RTN), at the
// scale that loses the least. Used by quantize.cpp.
#pragma once

#include <cstdint>
#include <span>

#include "base/parallel.h"
#include "nn/model.h"

namespace mlx::compress {

struct Groups {
  int bits = 4;            // 4 or 8
  std::int64_t size = 32;  // inputs of a group, a multiple of 32
};

// Rounds w to integers of so many bits, -8 … 7 or -127 … 127, which it writes to q. Returns their scale, which f16
// holds exactly: for four bits the one of a few with the least squared error, for eight that of the largest weight.
// NaN, and q is not written, if w is not finite; infinite if f16 cannot hold the scale.
float round_group(std::span<const float> w, int bits, std::span<std::int8_t> q);

struct GroupedWeights {
  nn::Model model;
  std::int64_t layers = 0, left = 0;  // linear layers that were rounded, and that were not
};
// Layers whose inputs are not whole groups, and embeddings, stay as they are. A head that shares its weights with the
// embedding gets weights of its own. Throws kUsage if no layer can be rounded; kCorrupt if a weight is not finite or
// too large for its scale.
GroupedWeights group_weights(const nn::Model& model, const Groups& groups, Pool& pool);

}  // namespace mlx::compress
