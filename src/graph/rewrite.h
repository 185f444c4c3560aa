// What passes are written with. Used by pass_*.cpp and optimizers.cpp only.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/graph.h"

namespace mlx::graph {

// How many nodes' inputs and graph outputs name each value.
std::vector<int> count_uses(const Graph& graph);
// Every use of `from` becomes one of `to`.
void replace_uses(Graph& graph, ValueId from, ValueId to);
// The node that writes the value, by index; nodes.size() where none does. In-place writes do not count.
std::size_t producer(const Graph& graph, ValueId value);
// Appends the cast of a value to another type; returns NAME.bf16, NAME.f16 or NAME.f32.
ValueId cast_to(Graph& graph, ValueId value, DType type);
// Removes the nodes that are marked.
void erase_nodes(Graph& graph, const std::vector<char>& marked);
// Removes the values that no node, input or output names; renumbers.
void remove_unused_values(Graph& graph);
// Makes a relu or relu6 (and, with `gelu`, a gelu after a linear layer) part of the operation that alone feeds it:
// convolution, linear layer, batch norm, addition.
void fuse_activations(Graph& graph, bool gelu);

}  // namespace mlx::graph
