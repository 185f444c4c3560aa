// The pass from a language model to one whose linear layers have weights of four or eight bits in groups (rounding.h).
// group_weights() needs no data: weights are rounded to the nearest (RTN), at the scale that loses the least. Used by
// quantize.cpp and layer_by_layer.cpp.
#pragma once

#include <cstdint>
#include <vector>

#include "base/parallel.h"
#include "compress/rounding.h"
#include "nn/model.h"

namespace mlx::compress {

// The linear layers with weights of their own kind, by their index in the graph's nodes: parameters in f32, whole
// groups of `size`. `left`: how many linear layers there are beside them.
struct GroupableLayers {
  std::vector<std::size_t> nodes;
  std::int64_t left = 0;
};
// Throws kUsage if there is none.
GroupableLayers groupable_layers(const graph::Graph& graph, std::int64_t size);
// Makes a layer one with such weights, which it adds as NAME.groups and NAME.groups.scales. The weights that it had
// stay in `weights`.
void put_rounded(graph::Graph& graph, graph::Weights::Map& weights, std::size_t node, const SharedLayer& layer);
// Removes what nothing reads, and names the precision by the fewest bits.
void finish_groups(nn::Model& model, graph::Weights::Map weights);

struct GroupedWeights {
  nn::Model model;
  std::int64_t layers = 0, left = 0;  // linear layers that were rounded, and that were not
};
// Layers whose inputs are not whole groups, and embeddings, stay as they are. A head that shares its weights with the
// embedding gets weights of its own. Throws kUsage if no layer can be rounded; kCorrupt if a weight is not finite or
// too large for its scale.
GroupedWeights group_weights(const nn::Model& model, const Groups& groups, Pool& pool);

}  // namespace mlx::compress
