// Models with a given graph: one imported from another program, or taken from such a model. They are trained,
// evaluated, stored and quantized like those of other families.
#pragma once

#include "nn/family.h"

namespace mlx::nn {

inline constexpr const char* kImported = "imported";

// Makes a model of this family from a forward graph. Throws kUsage if the graph is not valid, does not take what the
// data provides (one input as in InputSpec, with the batch as its first dimension), or has another number of outputs
// (one output, f32[batch,outputs]). Images and rows only.
Built built_from(graph::Graph graph, const InputSpec& input);

}  // namespace mlx::nn
