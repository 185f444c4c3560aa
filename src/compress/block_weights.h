// The pass from a language model to one whose linear layers have weights in blocks of 256 (kernels/block_type.h,
// "K-quants"), without data: parts of scales and integers are those with the least squared error of what was tried.
// Used by quantize.cpp.
#pragma once

#include <span>

#include "base/parallel.h"
#include "compress/group_weights.h"
#include "kernels/block_type.h"

namespace mlx::compress {

// Rounds 256 weights into a block. False if one is not finite, or too large for a scale in f16.
bool round_block(const kernels::BlockType& type, std::span<const float> w, std::uint8_t* block);
// As group_weights(); the weights of a layer become NAME.blocks behind the name that they had, or that of a layer whose
// weights others read too.
GroupedWeights block_weights(const nn::Model& model, const kernels::BlockType& type, Pool& pool);

}  // namespace mlx::compress
