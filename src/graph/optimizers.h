// The updates that a training graph ends with: one row an optimizer. Used by pass_training.cpp only.
#pragma once

#include <string>

#include "graph/passes.h"

namespace mlx::graph {

// One parameter's update, as the row of its optimizer sees it.
struct Update {
  Graph& graph;
  const OptimizerSpec& spec;
  ValueId parameter = kNone, gradient = kNone;
  ValueId learning_rate = kNone;  // input f32[1]
  ValueId factor = kNone;         // f32[1], what gradients count times; kNone for 1
  ValueId taken = kNone;          // f32[1]: 1, or NaN where the step is left out; kNone where none ever is
  bool hidden_matrix = false;     // see hidden_matrices()
  DType factors = DType::kF32;    // of the products that an update makes
};
// Appends the nodes. kUsage for an optimizer that there is not.
void add_update(const Update& update);

// By value: whether a parameter is the weights of a linear layer or a convolution without groups whose result is not
// the graph's output. Embeddings, the head (also where it is the embedding's table), norms and biases are not.
std::vector<char> hidden_matrices(const Graph& forward);

}  // namespace mlx::graph
