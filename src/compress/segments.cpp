// Finds where a graph can be cut: behind a node after which one value alone is read.

#include "compress/segments.h"

#include <algorithm>

#include "base/error.h"
#include "graph/passes/passes.h"

namespace mlx::compress {
namespace {

using graph::Graph;
using graph::kNone;
using graph::ValueId;

// For each value the last node that reads it; the number of nodes for an output.
std::vector<std::size_t> last_uses(const Graph& graph) {
  std::vector<std::size_t> out(graph.values.size(), 0);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    for (const ValueId id : graph.nodes[i].inputs)
      if (id != kNone) out[graph::index(id)] = i;
  for (const ValueId id : graph.outputs) out[graph::index(id)] = graph.nodes.size();
  return out;
}

// Whether it is one row for each token, so that a window's part can be kept and fed again.
bool is_of_tokens(const Graph& graph, ValueId id) {
  const graph::Dims &dims = graph.value(id).dims, &ids = graph.value(graph.inputs[0]).dims;
  if (dims.size() < 2 || ids.size() != 2 || !(dims[0] == ids[0]) || !(dims[1] == ids[1])) return false;
  return std::none_of(dims.begin() + 2, dims.end(), [](const graph::Dim& dim) { return dim.symbolic(); });
}

// For each node the one value that the nodes behind it read of what is there then; kNone if there are several.
std::vector<ValueId> cuts_of(const Graph& graph) {
  const std::vector<std::size_t> last = last_uses(graph);
  std::vector<ValueId> alive = graph.inputs, cuts;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const ValueId id : graph.nodes[i].outputs)
      if (id != kNone) alive.push_back(id);
    std::erase_if(alive, [&](ValueId id) { return last[graph::index(id)] <= i; });
    cuts.push_back(alive.size() == 1 && is_of_tokens(graph, alive[0]) ? alive[0] : kNone);
  }
  return cuts;
}

void add_layer(const Graph& graph, std::size_t node, Segment& segment) {
  const ValueId input = graph.nodes[node].inputs[0];
  const auto known = std::ranges::find(segment.groups, input, &LayerGroup::input);
  if (known != segment.groups.end())
    known->nodes.push_back(node);
  else
    segment.groups.push_back({input, {node}});
}

}  // namespace

std::vector<Segment> segments_of(const Graph& graph, std::span<const std::size_t> layers) {
  CHECK(graph.inputs.size() == 1 && graph.outputs.size() == 1 && !layers.empty());
  const std::vector<ValueId> cuts = cuts_of(graph);
  std::vector<Segment> out;
  Segment now{0, 0, graph.inputs[0], kNone, {}};
  for (std::size_t i = 0, layer = 0; i < graph.nodes.size(); ++i) {
    if (layer < layers.size() && layers[layer] == i) {
      add_layer(graph, i, now);
      ++layer;
    }
    const bool rest_has_some = layer < layers.size();
    if (cuts[i] == kNone || now.groups.empty() || !rest_has_some) continue;
    now.last = i + 1, now.to = cuts[i];
    out.push_back(std::move(now));
    now = {i + 1, 0, cuts[i], kNone, {}};
  }
  now.last = graph.nodes.size(), now.to = graph.outputs[0];
  out.push_back(std::move(now));
  return out;
}

Graph piece_of(const Graph& graph, const Segment& segment, ValueId wanted) {
  Graph piece = graph;
  const auto at = [&](std::size_t node) { return piece.nodes.begin() + static_cast<std::ptrdiff_t>(node); };
  piece.nodes.erase(at(segment.last), piece.nodes.end());
  piece.nodes.erase(piece.nodes.begin(), at(segment.first));
  piece.values[graph::index(segment.from)].role = graph::Role::kInput;
  piece.inputs = {segment.from};
  piece.outputs = {wanted};
  return graph::remove_dead(piece);
}

}  // namespace mlx::compress
