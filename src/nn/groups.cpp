#include "nn/groups.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/passes/passes.h"

namespace mlx::nn {
namespace {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::ValueId;

bool is_grouped(const Node& node) {
  return node.op == Op::kLinearGroups;
}

// The layer of `graph` that `layer`, with weights in groups, becomes.
Node& layer_like(Graph& graph, const Graph& base, const Node& layer) {
  const auto found = std::ranges::find(graph.nodes, layer.name, &Node::name);
  const auto ends = [](const Graph& of, ValueId id) { return of.value(id).dims.back(); };
  if (found == graph.nodes.end() || found->op != Op::kLinear ||
      !(ends(graph, found->inputs[0]) == ends(base, layer.inputs[0])) ||
      !(ends(graph, found->outputs[0]) == ends(base, layer.outputs[0])))
    fail(ErrorKind::kUsage, "the model to start from has weights in groups, and its layer '{}' is not in this model",
         layer.name);
  return *found;
}

}  // namespace

bool has_groups(const Graph& graph) {
  return std::ranges::any_of(graph.nodes, is_grouped);
}

Graph with_groups_of(const Graph& base, const Graph& graph) {
  if (!has_groups(base) || has_groups(graph)) return graph;
  Graph out = graph;
  for (const Node& node : base.nodes) {
    if (!is_grouped(node)) continue;
    Node& layer = layer_like(out, base, node);
    std::vector<ValueId> inputs{layer.inputs[0]};
    for (const std::size_t i : {1, 2}) {
      const graph::Value& value = base.value(node.inputs[i]);
      inputs.push_back(out.parameter(value.name, value.dims, value.dtype));
    }
    if (layer.inputs.size() > 2 && layer.inputs[2] != graph::kNone) inputs.push_back(layer.inputs[2]);
    layer.op = Op::kLinearGroups;
    layer.inputs = std::move(inputs);
  }
  return graph::remove_dead(out);
}

}  // namespace mlx::nn
