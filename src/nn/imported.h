// Models with a given graph: one imported from another program, or taken from such a model. They are trained,
// evaluated, stored and quantized like those of other families.
#pragma once

#include "nn/family.h"

namespace mlx::nn {

inline constexpr const char* kImported = "imported";
inline constexpr std::int64_t kLongestContext = std::int64_t{1} << 20;

// A forward graph as a model of this family. kUsage where it is not valid, or does not take what the data gives (one
// input as InputSpec says, first of it the batch) or gives another number of outputs (one output, f32[batch,outputs];
// of tokens, f32[batch,sequence,vocabulary]). `context`: of tokens, the longest sequence that it is to take.
Built built_from(graph::Graph graph, const InputSpec& input, std::int64_t context = 0);

// A model of this family that comes from outside, with the core operations that its graph can have (graph::raise).
// kUsage where its inputs and outputs are not those of images, rows or text, or where it is not in f32.
Model imported(Model model);

}  // namespace mlx::nn
