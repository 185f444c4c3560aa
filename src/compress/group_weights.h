// The pass from a language model to one whose linear layers have smaller weights (weight_type.h). group_weights() needs
// no data: weights are rounded to the nearest (RTN), at the scale that loses the least. Used by quantize.cpp and
// layer_by_layer.cpp.
#pragma once

#include <cstdint>
#include <vector>

#include "base/parallel.h"
#include "compress/weight_type.h"
#include "nn/model.h"

namespace mlx::compress {

// The linear layers that a type fits, by their index in the graph's nodes: their weights are parameters in f32. `left`:
// how many linear layers there are beside them; `small`: how many of them get blocks or groups of 32 instead of blocks
// of 256.
struct GroupableLayers {
  std::vector<std::size_t> nodes;
  std::int64_t left = 0, small = 0;
};
// Throws kUsage if there is none.
GroupableLayers groupable_layers(const graph::Graph& graph, const WeightType& type);
// How many inputs a linear layer has.
std::int64_t inputs_of(const graph::Graph& graph, std::size_t node);
// Makes a layer one with such weights, which it adds as NAME.groups and NAME.groups.scales, or as WEIGHTS.blocks. The
// weights that it had stay in `weights`.
void put_rounded(graph::Graph& graph, graph::Weights::Map& weights, std::size_t node, const SharedLayer& layer);
// Removes what nothing reads, and names the precision by the fewest bits.
void finish_groups(nn::Model& model, graph::Weights::Map weights);
// The attributes of a layer in blocks.
graph::Attrs attrs_of_blocks(const SharedLayer& layer);

// Layers whose inputs are not whole groups, and embeddings, stay as they are. A head that shares its weights with the
// embedding gets weights of its own. Throws kUsage if no layer can be rounded; kCorrupt if a weight is not finite or
// too large for its scale.
nn::Model group_weights(const nn::Model& model, const WeightType& type, Pool& pool);

// A linear layer as it would be.
struct PlannedLayer {
  std::string name, type;  // "stored": it is left
  std::int64_t outputs = 0, inputs = 0;
  std::uint64_t bytes_before = 0, bytes = 0;  // of its weights and their scales
};
struct LayerPlans {
  std::vector<PlannedLayer> layers;
  std::int64_t left = 0, small = 0;               // as GroupableLayers
  std::uint64_t weights_before = 0, weights = 0;  // of the whole model, in bytes
};
// What group_weights() would make, byte for byte, without the work. Throws kUsage as it does.
LayerPlans plan_layers(const nn::Model& model, const WeightType& type);

}  // namespace mlx::compress
