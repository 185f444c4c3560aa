// Models with a given graph: one imported from another program, or taken from such a model. They are trained,
// evaluated, stored and quantized like those of other families.
#pragma once

#include "nn/family.h"

namespace mlx::nn {

inline constexpr const char* kImported = "imported";
inline constexpr std::int64_t kLongestContext = std::int64_t{1} << 20;

// Makes a model of this family from a forward graph. Throws kUsage if the graph is not valid, does not take what the
// data provides (one input as in InputSpec, with the batch as its first dimension), or has another number of outputs
// (one output, f32[batch,outputs]; for tokens f32[batch,sequence,vocabulary]). `context`: for tokens, the longest
// sequence to take.
Built built_from(graph::Graph graph, const InputSpec& input, std::int64_t context = 0);

// Makes a model of this family from an outside model, with core operations where possible (graph::raise). Throws kUsage
// if its inputs and outputs are not those of images, rows or text, if it is not in f32, if two nodes have one name, if
// a node has an attribute that its operation does not read, or if a constant index of a gather is out of range.
Model imported(Model model);

}  // namespace mlx::nn
