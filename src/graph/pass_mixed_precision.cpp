// Mixed precision for training: f32 everywhere but in what is multiplied (Kalamkar et al. 2019, "A Study of BFLOAT16
// for Deep Learning Training") and in what only operations read that take bf16 (op_def.h). bf16 has f32's exponents, so
// no loss is scaled; weights are rounded by the kernels that pack them, from f32 parameters that nothing else ever
// rounds.

#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/op_def.h"
#include "graph/passes.h"
#include "graph/rewrite.h"
#include "kernels/geometry.h"

namespace mlx::graph {
namespace {

bool wide_conv(const Node& node, const Value& weights) {
  return node.attrs.groups == 1 && weights.dims[3].size > kernels::kFewChannels;
}

// How many of a node's inputs, from the first on, are factors that may be bf16; its weights are behind them.
std::size_t factors(const Graph& graph, const Node& node) {
  switch (node.op) {
    case Op::kLinear:
      return graph.value(node.inputs[1]).dtype == DType::kF32 ? 1 : 0;
    case Op::kLinearBackwardData:
      return 1;
    case Op::kLinearBackwardWeights:
      return 2;
    case Op::kConv2d:
      return graph.value(node.inputs[1]).dtype == DType::kF32 && wide_conv(node, graph.value(node.inputs[1])) ? 1 : 0;
    case Op::kConv2dBackwardData:
      return wide_conv(node, graph.value(node.inputs[1])) ? 1 : 0;
    case Op::kConv2dBackwardWeights:
      return wide_conv(node, graph.value(node.outputs[0])) ? 2 : 0;
    default:
      return 0;
  }
}

// Whether the kernels of a node can store its first output, computed in f32, as bf16: products those of bf16 factors.
bool can_narrow(const Graph& graph, const Node& node) {
  const bool product = node.op == Op::kLinear || node.op == Op::kLinearBackwardData || node.op == Op::kConv2d ||
                       node.op == Op::kConv2dBackwardData;
  return op_def(node.op).stores_bf16 && (!product || graph.value(node.inputs[0]).dtype == DType::kBF16);
}

bool takes_narrow(const Node& node, std::size_t input) {
  return (op_def(node.op).reads_bf16 >> input & 1u) != 0;
}

bool narrows(const Node& node) {
  return node.op == Op::kCast && node.attrs.output == DType::kBF16;
}

// Where a value is cast anyway, the gradient of relu, which wants its sign alone, reads the half of it: the whole need
// not live until then.
void read_halves(Graph& graph) {
  std::unordered_map<ValueId, ValueId> halves;
  for (Node& node : graph.nodes) {
    if (narrows(node)) halves.emplace(node.inputs[0], node.outputs[0]);
    if (node.op != Op::kReluBackward) continue;
    const auto half = halves.find(node.inputs[0]);
    if (half != halves.end()) node.inputs[0] = half->second;
  }
}

// How many readers a value has that need it as f32.
std::vector<int> whole_uses(const Graph& graph) {
  std::vector<int> uses = count_uses(graph);
  for (const Node& node : graph.nodes) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (narrows(node) || takes_narrow(node, i)) --uses[static_cast<std::size_t>(node.inputs[i])];
  }
  return uses;
}

}  // namespace

void multiply_in_bf16(Graph& graph) {
  std::vector<Node> nodes = std::exchange(graph.nodes, {});
  std::unordered_map<ValueId, ValueId> casts;
  for (Node& node : nodes) {
    const std::size_t count = factors(graph, node);
    for (std::size_t i = 0; i < count; ++i) {
      const ValueId value = node.inputs[i];
      const auto [cast, is_new] = casts.try_emplace(value, kNone);
      if (is_new) cast->second = cast_to_bf16(graph, value);
      node.inputs[i] = cast->second;
    }
    graph.nodes.push_back(std::move(node));
  }
}

void store_in_bf16(Graph& graph) {
  read_halves(graph);
  const std::vector<int> whole = whole_uses(graph);
  std::vector<char> stored(graph.values.size(), 0), dropped(graph.nodes.size(), 0);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    const ValueId value = narrows(node) ? node.inputs[0] : node.outputs[0];
    const auto at = static_cast<std::size_t>(value);
    if (narrows(node) && stored[at] != 0) {
      replace_uses(graph, node.outputs[0], value);
      dropped[i] = 1;
    } else if (can_narrow(graph, node) && whole[at] == 0) {
      node.attrs.output = DType::kBF16;
      graph.values[at].dtype = DType::kBF16;
      stored[at] = 1;
    }
  }
  erase_nodes(graph, dropped);
}

}  // namespace mlx::graph
