// Models whose linear layers have weights in groups (kernels/op_list.h, kLinearGroups). Used by quantization and by
// training beside such weights.
#pragma once

#include "graph/graph.h"

namespace mlx::nn {

bool has_groups(const graph::Graph& graph);
// `graph` with the weights in groups that layers of the same names have in `base`. Throws kUsage if it lacks one of
// them, or if one has another shape.
graph::Graph with_groups_of(const graph::Graph& base, const graph::Graph& graph);

}  // namespace mlx::nn
