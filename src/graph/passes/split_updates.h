// The updates of a training graph apart from the rest, for ranks that share them: each updates its pieces of the
// parameters and holds the optimizer's state of those pieces only (train/loop/optimizer_shard.h).
#pragma once

#include <string>
#include <vector>

#include "graph/passes/passes.h"

namespace mlx::graph {

// An optimizer's node (kernels/op_list.h). Each element of its parameter is updated by itself.
struct ParameterUpdate {
  Op op{};
  Attrs attrs;
  std::string parameter, gradient;  // names of values; the gradient is a sum
  std::vector<std::string> states;  // in the order of the node's inputs
  kernels::Shape shape;             // of all of them
};

struct SplitUpdates {
  TrainingGraph rest;  // without the updates, their states and norms; averages of weights stay
  std::vector<ParameterUpdate> updates;
  std::vector<std::string> norms;  // gradients in the order in which the norm over all takes them; none if not clipped
  Attrs scale;                     // of kGradientScale
};

// Of a graph that accumulates, in f32 or bf16. Throws kUsage if an update needs its parameter whole.
SplitUpdates split_updates(const TrainingGraph& training);

}  // namespace mlx::graph
