// Uses, producers, removal: the common part of passes.

#include "graph/passes/rewrite.h"

#include <algorithm>
#include <utility>

#include "graph/op_def.h"
#include "graph/passes/passes.h"

namespace mlx::graph {
namespace {

bool written_in_place(const Graph& graph, ValueId id) {
  return id != kNone && graph.value(id).role != Role::kActivation;
}

bool takes(const Node& producer, Activation activation, bool gelu) {
  if (producer.attrs.activation != Activation::kNone || producer.attrs.output != DType::kF32) return false;
  if (activation == Activation::kGelu && !gelu) return false;
  return (op_def(producer.op).fuses & bit_of(activation)) != 0;
}

}  // namespace

std::vector<int> count_uses(const Graph& graph) {
  std::vector<int> uses(graph.values.size(), 0);
  for (const Node& node : graph.nodes) {
    for (const ValueId id : node.inputs) {
      if (id != kNone) ++uses[index(id)];
    }
  }
  for (const ValueId id : graph.outputs) ++uses[index(id)];
  return uses;
}

void replace_uses(Graph& graph, ValueId from, ValueId to) {
  for (Node& node : graph.nodes) std::ranges::replace(node.inputs, from, to);
  std::ranges::replace(graph.outputs, from, to);
}

std::size_t producer(const Graph& graph, ValueId value) {
  const auto writes = [&](const Node& node) {
    return graph.value(value).role == Role::kActivation && std::ranges::find(node.outputs, value) != node.outputs.end();
  };
  return static_cast<std::size_t>(std::ranges::find_if(graph.nodes, writes) - graph.nodes.begin());
}

ValueId cast_to(Graph& graph, ValueId value, DType type) {
  Attrs attrs;
  attrs.output = type;
  return graph.add(Op::kCast, attrs, {value}, graph.value(value).name + "." + kernels::name_of(type))[0];
}

void erase_nodes(Graph& graph, const std::vector<char>& marked) {
  std::vector<Node> kept;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (marked[i] == 0) kept.push_back(std::move(graph.nodes[i]));
  }
  graph.nodes = std::move(kept);
}

void fuse_activations(Graph& graph, bool gelu) {
  const std::vector<int> uses = count_uses(graph);
  std::vector<char> fused(graph.nodes.size(), 0);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const Activation activation = op_def(node.op).activation;
    if (activation == Activation::kNone) continue;
    const ValueId before = node.inputs[0];
    const std::size_t at = producer(graph, before);
    if (at >= graph.nodes.size() || uses[index(before)] != 1) continue;
    Node& feeds = graph.nodes[at];
    if (feeds.outputs[0] != before || !takes(feeds, activation, gelu)) continue;
    feeds.attrs.activation = activation;
    feeds.outputs[0] = node.outputs[0];
    fused[i] = 1;
  }
  erase_nodes(graph, fused);
}

void remove_unused_values(Graph& graph) {
  std::vector<char> named(graph.values.size(), 0);
  const auto each_list = [&](const auto& visit) {
    visit(graph.inputs);
    visit(graph.outputs);
    for (Node& node : graph.nodes) {
      visit(node.inputs);
      visit(node.outputs);
    }
  };
  each_list([&](const std::vector<ValueId>& ids) {
    for (const ValueId id : ids) {
      if (id != kNone) named[index(id)] = 1;
    }
  });
  std::vector<ValueId> renumbered(graph.values.size(), kNone);
  std::vector<Value> kept;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    if (named[i] == 0) continue;
    renumbered[i] = static_cast<ValueId>(kept.size());
    kept.push_back(std::move(graph.values[i]));
  }
  graph.values = std::move(kept);
  each_list([&](std::vector<ValueId>& ids) {
    for (ValueId& id : ids) {
      if (id != kNone) id = renumbered[index(id)];
    }
  });
}

Graph remove_dead(const Graph& graph) {
  std::vector<char> needed(graph.values.size(), 0);  // by an output, a state write or a node that is kept
  std::vector<char> dead(graph.nodes.size(), 0);
  for (const ValueId id : graph.outputs) needed[index(id)] = 1;
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    dead[i] = std::ranges::none_of(node.outputs, [&](ValueId id) {
      return id != kNone && (needed[index(id)] != 0 || written_in_place(graph, id));
    });
    if (dead[i] != 0) continue;
    for (const ValueId id : node.inputs) {
      if (id != kNone) needed[index(id)] = 1;
    }
  }
  Graph kept = graph;
  erase_nodes(kept, dead);
  for (Node& node : kept.nodes) {
    const unsigned optional = op_def(node.op).optional_outputs;
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      ValueId& id = node.outputs[k];
      if (id != kNone && needed[index(id)] == 0 && (optional >> k & 1u) != 0) id = kNone;
    }
  }
  remove_unused_values(kept);
  return kept;
}

}  // namespace mlx::graph
