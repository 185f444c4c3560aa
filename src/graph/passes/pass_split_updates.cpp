#include "graph/passes/split_updates.h"

#include "base/error.h"

namespace mlx::graph {
namespace {

bool updates_elements(Op op) {
  return op == Op::kSgd || op == Op::kAdamW || op == Op::kLion;
}

// w, dw, states, lr, (factor) → w, states.
ParameterUpdate update_of(const Graph& graph, const Node& node) {
  ParameterUpdate out{node.op, node.attrs, graph.value(node.inputs[0]).name, graph.value(node.inputs[1]).name, {}, {}};
  for (std::size_t i = 1; i < node.outputs.size(); ++i)
    if (node.outputs[i] != kNone) out.states.push_back(graph.value(node.outputs[i]).name);
  CHECK(out.states.size() + 1 == node.outputs.size());
  out.shape = concrete(graph.value(node.inputs[0]), {});
  return out;
}

}  // namespace

SplitUpdates split_updates(const TrainingGraph& training) {
  SplitUpdates out;
  Graph graph = training.graph;
  graph.nodes.resize(training.update_begin);
  for (std::size_t i = training.update_begin; i < training.graph.nodes.size(); ++i) {
    const Node& node = training.graph.nodes[i];
    if (updates_elements(node.op)) {
      out.updates.push_back(update_of(graph, node));
    } else if (node.op == Op::kNorm) {
      out.norms.push_back(graph.value(node.inputs[0]).name);
    } else if (node.op == Op::kGradientScale) {
      out.scale = node.attrs;
    } else if (node.op == Op::kAccumulate) {  // an average of weights
      graph.nodes.push_back(node);
    } else {
      fail(ErrorKind::kUsage, "'{}' needs a whole gradient", node.name);
    }
  }
  std::erase(graph.outputs, training.gradient_norm);
  out.rest = training;
  out.rest.graph = remove_dead(graph);
  const auto again = [&](ValueId& id) {
    if (id != kNone) id = out.rest.graph.find(graph.value(id).name);
  };
  out.rest.gradient_norm = kNone;
  for (ValueId* id : {&out.rest.labels, &out.rest.learning_rate, &out.rest.loss, &out.rest.correct, &out.rest.counted,
                      &out.rest.accumulation, &out.rest.average})
    again(*id);
  return out;
}

}  // namespace mlx::graph
