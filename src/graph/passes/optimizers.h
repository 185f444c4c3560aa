// The updates at the end of a training graph: one row for each optimizer. Used by pass_training.cpp only.
#pragma once

#include <string>

#include "graph/passes/passes.h"

namespace mlx::graph {

// One parameter's update, as its optimizer's row sees it.
struct Update {
  Graph& graph;
  const OptimizerSpec& spec;
  ValueId parameter = kNone, gradient = kNone;
  ValueId learning_rate = kNone;  // input f32[1]
  ValueId factor = kNone;         // f32[1]: multiplies gradients; kNone for 1
  ValueId taken = kNone;          // f32[1]: 1, or NaN if the step is skipped; kNone if no step ever is
  bool hidden_matrix = false;     // see hidden_matrices()
  DType factors = DType::kF32;    // the type of factors in the update's own products
};
// Appends the nodes. Throws kUsage for an unknown optimizer.
void add_update(const Update& update);

// By value: true for the weights of a linear layer, or of a convolution without groups, whose result is not the graph's
// output. False for embeddings, the head (even if it shares the embedding's table), norms and biases.
std::vector<char> hidden_matrices(const Graph& forward);

}  // namespace mlx::graph
