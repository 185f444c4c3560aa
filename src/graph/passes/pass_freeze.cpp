// Makes parameters that are not trained constants: they have no gradient and no optimizer state, and backward stops
// where nothing below is trained.

#include <algorithm>

#include "base/error.h"
#include "graph/passes/passes.h"

namespace mlx::graph {
namespace {

// By value: true if it is trained, or computed from a trained value.
std::vector<char> trained_values(const Graph& graph) {
  std::vector<char> trained(graph.values.size(), 0);
  for (std::size_t i = 0; i < graph.values.size(); ++i) trained[i] = graph.values[i].role == Role::kParameter;
  for (const Node& node : graph.nodes) {
    const bool any = std::ranges::any_of(
        node.inputs, [&](ValueId id) { return id != kNone && trained[static_cast<std::size_t>(id)] != 0; });
    for (const ValueId id : node.outputs) {
      if (any && id != kNone) trained[static_cast<std::size_t>(id)] = 1;
    }
  }
  return trained;
}

}  // namespace

Graph freeze(const Graph& forward, const std::vector<std::string>& parameters) {
  if (parameters.empty()) return forward;
  Graph graph = forward;
  for (const std::string& name : parameters) {
    const ValueId id = graph.find(name);
    CHECK(id != kNone && graph.value(id).role == Role::kParameter);
    graph.values[static_cast<std::size_t>(id)].role = Role::kConstant;
  }
  const std::vector<char> trained = trained_values(graph);
  for (Node& node : graph.nodes) {
    if (node.op != Op::kBatchNorm || trained[static_cast<std::size_t>(node.outputs[0])] != 0) continue;
    node.op = Op::kBatchNormInference;
    node.outputs.resize(1);
    node.attrs.momentum = Attrs{}.momentum;  // only training reads it
  }
  return graph;  // keeps the outputs that only backward reads
}

}  // namespace mlx::graph
