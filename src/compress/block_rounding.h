// Rounds weights into blocks (kernels/block_type.h): parts of scales and integers are those with the least squared
// error of what was tried. Used by weight_type.cpp and gptq.cpp.
#pragma once

#include <span>
#include <string>

#include "base/parallel.h"
#include "compress/rounding.h"
#include "kernels/block_type.h"

namespace mlx::compress {

// Weights that share a scale are scale · q - low, for integers q.
struct Line {
  float scale = 0, low = 0;
};

// Rounds the weights of a block. Each error counts `importance` times; none: once. False if a weight is not finite, or
// too large for a scale in f16.
bool round_block(const kernels::BlockType& type, std::span<const float> w, std::span<const float> importance,
                 kernels::UnpackedBlock& block);
// The largest integer of a block; the least is 0.
int most_of(const kernels::BlockType& type);

RoundedLayer empty_blocks(const kernels::BlockType& type, std::int64_t outputs, std::int64_t inputs);
// All weights of a layer, whose inputs are whole blocks. `importance`: of each input; none: all the same. Throws
// kCorrupt, with the name of the weights, if one is not finite or too large for its scale.
RoundedLayer round_blocks(const kernels::BlockType& type, const graph::Weight& from, const std::string& name,
                          Pool& pool, std::span<const float> importance = {});

}  // namespace mlx::compress
