// Mixed precision for training: everything is f32 except factors of products (Kalamkar et al. 2019, "A Study of
// BFLOAT16 for Deep Learning Training"), and values that only operations read which take half precision (op_def.h).
// Parameters stay f32: only products see them rounded.

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/op_def.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"
#include "kernels/geometry.h"

namespace mlx::graph {

using kernels::Capabilities;

namespace {

bool wide_conv(const Node& node, const Value& weights) {
  return node.attrs.groups == 1 && weights.dims[3].size > kernels::kFewChannels;
}

// Which of a node's inputs (bit i: input i) are factors that may be half. A copy of the weights in half saves reading
// them whole, forward and backward, unless the kernels pack them anyway.
unsigned factors(const Graph& graph, const Node& node, const Capabilities& can) {
  const unsigned with_weights = can.reads_half_weights ? 0b11 : 0b01;
  const auto weights_are_f32 = [&] { return graph.value(node.inputs[1]).dtype == DType::kF32; };
  const auto fits = [&](ValueId weights) { return can.half_throughout || wide_conv(node, graph.value(weights)); };
  switch (node.op) {
    case Op::kLinear:
      return weights_are_f32() ? with_weights : 0;
    case Op::kLinearBackwardData:
      return with_weights;
    case Op::kLinearBackwardWeights:
      return 0b11;
    case Op::kConv2d:
      return weights_are_f32() && fits(node.inputs[1]) ? with_weights : 0;
    case Op::kConv2dBackwardData:
      return fits(node.inputs[1]) ? with_weights : 0;
    case Op::kConv2dBackwardWeights:
      return fits(node.outputs[0]) ? 0b11 : 0;
    default:
      return can.half_throughout ? op_def(node.op).half_with_result : 0;
  }
}

// The output that a node can store in half precision.
ValueId half_output(const Node& node) {
  return node.outputs[op_def(node.op).half_output];
}

// Whether the kernels of a node can store that output, computed in f32, as half: products those of half factors.
bool can_narrow(const Graph& graph, const Node& node, bool throughout) {
  const OpDef& def = op_def(node.op);
  if (!def.stores_half || (def.half_if_throughout && !throughout)) return false;
  return !def.product || kernels::is_half(graph.value(node.inputs[0]).dtype);
}

bool takes_narrow(const Node& node, std::size_t input, bool throughout) {
  const OpDef& def = op_def(node.op);
  return (def.reads_half >> input & 1u) != 0 && (throughout || !def.half_if_throughout);
}

bool narrows(const Node& node) {
  return node.op == Op::kCast && kernels::is_half(node.attrs.output);
}

// If a value is cast anyway, the gradient of relu reads the cast copy, because it needs only the sign. The f32 value
// then need not live until backward.
void read_halves(Graph& graph) {
  std::unordered_map<ValueId, ValueId> halves;
  for (Node& node : graph.nodes) {
    if (narrows(node)) halves.emplace(node.inputs[0], node.outputs[0]);
    if (node.op != Op::kReluBackward) continue;
    const auto half = halves.find(node.inputs[0]);
    if (half != halves.end()) node.inputs[0] = half->second;
  }
}

// For each value, the number of readers that need it as f32.
std::vector<int> whole_uses(const Graph& graph, bool throughout) {
  std::vector<int> uses = count_uses(graph);
  for (const Node& node : graph.nodes) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (narrows(node) || takes_narrow(node, i, throughout)) --uses[static_cast<std::size_t>(node.inputs[i])];
  }
  return uses;
}

// For a node whose factors and result are half precision: makes it output half precision, and casts its f32 result from
// that. Products that read the result find the half-precision value in `halves`.
void give_half(Graph& graph, Node& node, DType half, std::unordered_map<ValueId, ValueId>& halves) {
  const ValueId whole = node.outputs[0];
  Value value = graph.value(whole);
  value.name += std::string(".") + kernels::name_of(half);
  value.dtype = half;
  graph.values.push_back(std::move(value));
  node.outputs[0] = static_cast<ValueId>(graph.values.size() - 1);
  halves[whole] = node.outputs[0];
  Node widened;
  widened.op = Op::kCast;
  widened.name = node.name + ".f32";
  widened.inputs = {node.outputs[0]};
  widened.outputs = {whole};
  graph.nodes.push_back(std::move(node));
  graph.nodes.push_back(std::move(widened));
}

// Copies of all weights that products take, side by side in front, where one launch makes them.
void cast_weights(Graph& graph, const std::vector<Node>& nodes, DType half, const Capabilities& can,
                  std::unordered_map<ValueId, ValueId>& halves) {
  for (const Node& node : nodes) {
    const unsigned taken = factors(graph, node, can);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId value = node.inputs[i];
      if ((taken >> i & 1u) == 0 || graph.value(value).role != Role::kParameter) continue;
      const auto [found, is_new] = halves.try_emplace(value, kNone);
      if (is_new) found->second = cast_to(graph, value, half);
    }
  }
}

}  // namespace

void multiply_in_half(Graph& graph, DType half, const Capabilities& can) {
  std::vector<Node> nodes = std::exchange(graph.nodes, {});
  std::unordered_map<ValueId, ValueId> halves;
  if (can.reads_half_weights) cast_weights(graph, nodes, half, can, halves);
  for (Node& node : nodes) {
    const unsigned taken = factors(graph, node, can);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if ((taken >> i & 1u) == 0) continue;
      const auto [found, is_new] = halves.try_emplace(node.inputs[i], kNone);
      if (is_new) found->second = cast_to(graph, node.inputs[i], half);
      node.inputs[i] = found->second;
    }
    if (taken != 0 && op_def(node.op).half_with_result != 0)
      give_half(graph, node, half, halves);
    else
      graph.nodes.push_back(std::move(node));
  }
}

void store_in_half(Graph& graph, DType half, const Capabilities& can) {
  read_halves(graph);
  const std::vector<int> whole = whole_uses(graph, can.half_throughout);
  std::vector<char> stored(graph.values.size(), 0), dropped(graph.nodes.size(), 0);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    const ValueId value = narrows(node) ? node.inputs[0] : half_output(node);
    const auto at = static_cast<std::size_t>(value);
    if (narrows(node) && stored[at] != 0) {
      replace_uses(graph, node.outputs[0], value);
      dropped[i] = 1;
    } else if (can_narrow(graph, node, can.half_throughout) && whole[at] == 0) {
      node.attrs.output = half;
      graph.values[at].dtype = half;
      stored[at] = 1;
    }
  }
  erase_nodes(graph, dropped);
}

}  // namespace mlx::graph
