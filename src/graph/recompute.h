// Less memory for more work: parts of the forward pass whose values are not kept for the backward pass but computed
// again right before it needs them (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"). What is
// computed again has the same bits, and so has what is trained. Used by training where memory is capped.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/passes.h"
#include "graph/summary.h"

namespace mlx::graph {

struct NodeRange {
  std::size_t begin = 0, end = 0;
};

// The forward pass cut wherever a single value goes on, or two that the next node makes the sum of: in chains behind
// every node, around each residual branch. In order, without the last part, which backward needs at once.
std::vector<NodeRange> recomputable_parts(const TrainingGraph& training);

// Of these ranges of the forward pass, each one or several of these parts, what goes on is kept and all else that
// backward needs is computed again. Running statistics are written once.
TrainingGraph recompute(const TrainingGraph& training, const std::vector<NodeRange>& ranges);

struct Fitted {
  TrainingGraph training;
  PlannedMemory memory;
  std::size_t nodes = 0;  // that are computed again
  bool fits = false;      // else it is the one that wants least
};
// The training graph as it is where it wants at most `bytes` for its activations and what kernels pack of its weights
// (what is computed again packs them again) at these sizes, else with as little computed again as is found to do.
// `sizes` by symbol.
Fitted fit_memory(const TrainingGraph& training, const std::vector<std::int64_t>& sizes, kernels::Backend backend,
                  std::size_t bytes);

}  // namespace mlx::graph
