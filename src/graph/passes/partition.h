// Tensor parallelism as a pass (Megatron-LM, Shoeybi et al. 2019): several ranks hold the parts of one model and
// compute each layer together. Used by training, which gives the ranks their weights and gets whole tensors back.
//
// Two linear layers divide if what lies between them computes each part of its result from one part of its input
// (OpDef::divided): attention by heads, activations by elements. The first layer's weights are divided by rows, the
// second's by columns; the sum of the second's results over all ranks is the whole. Everything else all ranks have and
// compute alike: embeddings, norms, the output layer, the loss. The bits of a result depend on the number of parts.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/passes/stages.h"

namespace mlx::graph {

// How a tensor is divided.
struct Cut {
  int axis = -1;                       // along which; -1: not at all, the first part has it and the others do not
  std::vector<std::int64_t> sections;  // sizes along the axis; every part has an equal piece of each
};

struct Partition {
  int parts = 1, part = 0;                       // of which this is one
  std::map<std::string, Cut, std::less<>> cuts;  // of the forward graph's parameters; the others every part has

  Stage stage{};  // of the model, of which this is a part

  // The cut of a parameter, or of a state that belongs to it, NAME.m; null if every part has it.
  const Cut* cut_of(std::string_view name) const;
};

struct Partitioned {
  Graph graph;  // of one part: the same names, smaller weights, and collective operations
  Partition partition;
};
// Throws kUsage if nothing in the graph divides, or if something does that `parts` do not divide evenly.
Partitioned partition(const Graph& forward, int parts, int part);

// The part of a whole tensor that a rank has.
Tensor part_of(const Tensor& whole, const Cut& cut, int parts, int part);
// Writes a part into the whole. Throws kCorrupt if it has another size.
void put_part(Tensor& whole, const Cut& cut, int parts, int part, ByteView bytes);
// The shape of the whole of a part.
kernels::Shape whole_shape(const kernels::Shape& part, const Cut& cut, int parts);

}  // namespace mlx::graph
