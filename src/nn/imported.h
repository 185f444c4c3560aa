// Models whose graph is given: imported from another program, or taken over from such a model. They are trained,
// evaluated, stored and quantized as those of other families are.
#pragma once

#include "nn/family.h"

namespace mlx::nn {

inline constexpr const char* kImported = "imported";

// A forward graph as a model of this family. kUsage where it is not valid, or does not take what the data gives (one
// input as InputSpec says, first of it the batch) or gives another number of outputs (one output, f32[batch,outputs]).
// Images and rows only.
Built built_from(graph::Graph graph, const InputSpec& input);

}  // namespace mlx::nn
