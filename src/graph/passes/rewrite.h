// Shared by passes. Used by pass_*.cpp and optimizers.cpp only.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/graph.h"

namespace mlx::graph {

// The number of node inputs and graph outputs that name each value.
std::vector<int> count_uses(const Graph& graph);
// Replaces every use of `from` by `to`.
void replace_uses(Graph& graph, ValueId from, ValueId to);
// The index of the node that writes the value; nodes.size() if none does. In-place writes do not count.
std::size_t producer(const Graph& graph, ValueId value);
// Appends the cast of a value to another type; returns NAME.bf16, NAME.f16 or NAME.f32.
ValueId cast_to(Graph& graph, ValueId value, DType type);
// Removes the marked nodes.
void erase_nodes(Graph& graph, const std::vector<char>& marked);
// Removes the values that no node, input or output names, and renumbers the rest.
void remove_unused_values(Graph& graph);
// Fuses a relu or relu6 (and with `gelu` a gelu after a linear layer) into the operation that computes its input, if
// nothing else reads that: convolution, linear layer, batch norm, addition.
void fuse_activations(Graph& graph, bool gelu);

}  // namespace mlx::graph
