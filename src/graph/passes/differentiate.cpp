// Reverse-mode differentiation as a pass: it adds backward operations to the graph; there is no tape.

#include <algorithm>

#include "base/error.h"
#include "graph/op_def.h"

namespace mlx::graph {
namespace {

// The values that depend on one of `wrt`; others need no gradient.
std::vector<char> depends_on(const Graph& graph, const std::vector<ValueId>& wrt) {
  std::vector<char> depends(graph.values.size(), 0);
  for (const ValueId id : wrt) depends[static_cast<std::size_t>(id)] = 1;
  for (const Node& node : graph.nodes) {
    const bool any = std::ranges::any_of(
        node.inputs, [&](ValueId id) { return id != kNone && depends[static_cast<std::size_t>(id)] != 0; });
    if (!any) continue;
    for (const ValueId id : node.outputs) {
      if (id != kNone) depends[static_cast<std::size_t>(id)] = 1;
    }
  }
  return depends;
}

}  // namespace

std::vector<ValueId> differentiate(Graph& graph, ValueId loss, const std::vector<ValueId>& wrt,
                                   const std::vector<GivenGradient>& given) {
  const std::size_t forward_nodes = graph.nodes.size();
  const std::vector<char> depends = depends_on(graph, wrt);
  std::vector<ValueId> gradient(graph.values.size(), kNone);
  for (const GivenGradient& each : given) gradient[index(each.value)] = each.gradient;
  bool started = loss == kNone && !given.empty();
  for (std::size_t i = forward_nodes; i-- > 0;) {
    const Node node = graph.nodes[i];  // a copy, because adding nodes moves them
    const bool is_loss = op_def(node.op).loss && node.outputs[0] == loss;
    started = started || is_loss;
    std::vector<ValueId> of_outputs;
    bool any = is_loss;
    for (const ValueId id : node.outputs) {
      // Values written in place have no gradient: statistics and caches are not trained.
      const bool in_place = std::ranges::find(node.inputs, id) != node.inputs.end();
      of_outputs.push_back(id == kNone || in_place ? kNone : gradient[static_cast<std::size_t>(id)]);
      any = any || of_outputs.back() != kNone;
    }
    const bool wanted = std::ranges::any_of(
        node.inputs, [&](ValueId id) { return id != kNone && depends[static_cast<std::size_t>(id)] != 0; });
    if (!any || !wanted) continue;
    const OpDef& def = op_def(node.op);
    if (!def.backward || (!is_loss && of_outputs[0] == kNone)) {
      fail(ErrorKind::kUsage, "'{}' ({}) cannot be trained through", node.name, kernels::name_of(node.op));
    }
    const std::vector<ValueId> of_inputs = def.backward(graph, node, of_outputs);
    for (std::size_t k = 0; k < of_inputs.size() && k < node.inputs.size(); ++k) {
      const ValueId id = node.inputs[k];
      if (id == kNone || of_inputs[k] == kNone || depends[static_cast<std::size_t>(id)] == 0) continue;
      ValueId& sum = gradient[static_cast<std::size_t>(id)];
      sum =
          sum == kNone ? of_inputs[k] : graph.add(Op::kAdd, {}, {sum, of_inputs[k]}, graph.value(id).name + ".sum")[0];
    }
  }
  if (!started) fail(ErrorKind::kUsage, "the value to differentiate is not the output of a loss operation");

  std::vector<ValueId> gradients;
  for (const ValueId id : wrt) {
    const ValueId found = gradient[static_cast<std::size_t>(id)];
    gradients.push_back(found);
    if (found == kNone) continue;
    const std::string name = graph.value(id).name + ".grad";
    if (graph.find(name) == kNone) graph.values[static_cast<std::size_t>(found)].name = name;
  }
  return gradients;
}

}  // namespace mlx::graph
