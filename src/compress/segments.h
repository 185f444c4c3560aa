// A language model's graph in pieces that follow one another, so that it can be quantized piece by piece: only one
// value goes from each piece to the next, in a transformer the residual stream. Used by layer_by_layer.cpp.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace mlx::compress {

// Layers of one piece that read the same value, by their index in the graph's nodes.
struct LayerGroup {
  graph::ValueId input = graph::kNone;
  std::vector<std::size_t> nodes;
};

struct Segment {
  std::size_t first = 0, last = 0;                // its nodes: [first, last)
  graph::ValueId from = graph::kNone, to = from;  // what comes in, and what goes out
  std::vector<LayerGroup> groups;                 // in the order of their first layers
};

// Pieces with at least one of these layers each, all nodes of an inference graph together. `layers` ascend.
std::vector<Segment> segments_of(const graph::Graph& graph, std::span<const std::size_t> layers);

// The graph that computes `wanted` of a segment from its input, which becomes the only one. Names stay.
graph::Graph piece_of(const graph::Graph& graph, const Segment& segment, graph::ValueId wanted);

}  // namespace mlx::compress
