// The pass from a fused f32 inference graph to int8: selects the values to quantize, and builds the graph that computes
// with them.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace mlx::compress {

// Inputs and outputs of the layers that become int8, each once, in the graph's order.
std::vector<graph::ValueId> values_to_quantize(const graph::Graph& graph);
// True if a value cannot be negative: it is the output of a relu, possibly pooled or reshaped.
bool is_unsigned(const graph::Graph& graph, graph::ValueId value);

struct Quantized {
  graph::Graph graph;
  graph::Tensors tensors;
};
// `ranges`: f32[1] by value name, the magnitude that the largest quantized value stands for; kUsage if one is missing.
Quantized quantize_graph(const graph::Graph& fused, const graph::Tensors& tensors, const graph::Tensors& ranges);

}  // namespace mlx::compress
