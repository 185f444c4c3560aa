// Weights of linear layers as integers in groups, each with a scale of its own (kernels/op_list.h, kLinearGroups).
// Used by weight_type.cpp, which rounds to the nearest, and by gptq.cpp, which looks at data first.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "graph/weights.h"
#include "kernels/block_type.h"

namespace mlx::compress {

struct Groups {
  int bits = 4;            // 4 or 8
  std::int64_t size = 32;  // inputs of a group, a multiple of 32
};

// The least and the largest integer of so many bits: -8 and 7, or -127 and 127.
constexpr int least_of(int bits) {
  return bits == 4 ? -8 : -127;
}
constexpr int most_of(int bits) {
  return bits == 4 ? 7 : 127;
}

// A scale for w, which f16 holds exactly: for eight bits that of the largest weight, for four the one of a few with the
// least squared error; each error counts `importance` times, none: once. NaN if w is not finite; infinite if f16 cannot
// hold the scale.
float scale_of_group(std::span<const float> w, std::span<const float> importance, int bits);
// Rounds w to integers at scale_of_group, which it returns. q is not written if w is not finite.
float round_group(std::span<const float> w, int bits, std::span<std::int8_t> q, std::span<const float> importance = {});

// A layer's weights as kLinearGroups reads them, or in blocks as kLinearBlocks does, without scales.
struct RoundedLayer {
  int bits = 4;  // in groups
  const kernels::BlockType* blocks = nullptr;
  std::int64_t outputs = 0;  // in blocks
  graph::Tensor weights, scales;
};
// The same, which several models may have.
struct SharedLayer {
  int bits = 4;
  const kernels::BlockType* blocks = nullptr;
  std::int64_t outputs = 0;
  std::shared_ptr<const graph::Weight> weights, scales;  // null: in blocks
  std::int64_t bytes() const { return weights->shape().bytes() + (scales ? scales->shape().bytes() : 0); }
};
SharedLayer share(RoundedLayer layer);
std::shared_ptr<const graph::Weight> share(graph::Tensor tensor);
RoundedLayer empty_layer(std::int64_t outputs, std::int64_t inputs, const Groups& groups);
// One output's integers and scales, one a group. Any threads may write different ones.
void write_row(RoundedLayer& layer, std::int64_t output, std::span<const std::int8_t> q, std::span<const float> scales);
// Throws kCorrupt, with the name of the weights, if `scale` is not finite.
void check_scale(float scale, const std::string& name);

// One output's weights in f32, whatever they are stored as.
std::vector<float> row_of(const graph::Weight& weights, std::int64_t output);
// To the nearest. `importance`: of each input; none: all the same. Throws kCorrupt, with the name of the weights, if
// one is not finite, or too large for its scale.
RoundedLayer round_layer(const graph::Weight& from, const std::string& name, const Groups& groups, Pool& pool,
                         std::span<const float> importance = {});

}  // namespace mlx::compress
