// Trades work for memory: parts of the forward pass whose values are not kept for the backward pass but recomputed
// right before it needs them (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"). Recomputed values
// have the same bits, so the trained model has too. Used by training if memory is capped.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/passes/passes.h"
#include "graph/session/summary.h"

namespace mlx::graph {

struct NodeRange {
  std::size_t begin = 0, end = 0;
};

// The forward pass, cut wherever only one value is passed on, or two whose sum the next node computes: after every node
// of a chain, around each residual branch. In order; without the last part, which backward needs at once.
std::vector<NodeRange> recomputable_parts(const TrainingGraph& training);

// For these ranges of the forward pass, each one or several parts: keeps the values that are passed on, and recomputes
// everything else that backward needs. Running statistics are written once.
TrainingGraph recompute(const TrainingGraph& training, const std::vector<NodeRange>& ranges);

struct Fitted {
  TrainingGraph training;
  PlannedMemory memory;
  std::size_t nodes = 0;  // that are recomputed
  bool fits = false;      // else it is the graph with the smallest need
};
// The training graph unchanged, if its activations and the kernels' packed weights take at most `bytes` at these sizes
// (recomputed nodes pack their weights again). Else the graph with as little recomputation as the search finds to fit.
// `sizes` by symbol.
Fitted fit_memory(const TrainingGraph& training, const std::vector<std::int64_t>& sizes, kernels::Backend backend,
                  std::size_t bytes);

}  // namespace mlx::graph
