// The pass from a fused inference graph in f32 to int8: which values get eight bits, and the graph that computes with
// them.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace mlx::compress {

// Inputs and outputs of the layers that become int8, each once, in order of the graph.
std::vector<graph::ValueId> values_to_quantize(const graph::Graph& graph);
// Whether a value cannot be negative: it comes out of a relu, perhaps pooled or reshaped since.
bool is_unsigned(const graph::Graph& graph, graph::ValueId value);

struct Quantized {
  graph::Graph graph;
  graph::Tensors tensors;
};
// `ranges`: f32[1] by value name, the magnitude that the largest step stands for; kUsage where one is missing.
Quantized quantize_graph(const graph::Graph& fused, const graph::Tensors& tensors, const graph::Tensors& ranges);

}  // namespace mlx::compress
