// For training on GPUs. Fuses gelu into the linear layer that computes its input, the pre-activation, which the layer
// then also outputs. Fuses the gradient of gelu into the product that computes the gradient of gelu's result. Each
// fusion saves a pass over memory: gelu does not read its input again, and the gradient of its result is neither
// written nor read.

#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace mlx::graph {
namespace {

DType type_of(const Graph& graph, ValueId id) {
  return graph.value(id).dtype;
}

// The index of the node with operation `op` and without an activation that writes `value` as its first output;
// nodes.size() if there is none.
std::size_t plain_producer(const Graph& graph, ValueId value, Op op) {
  const std::size_t at = producer(graph, value);
  if (at == graph.nodes.size()) return at;
  const Node& node = graph.nodes[at];
  const bool plain = node.op == op && node.attrs.activation == Activation::kNone && node.outputs[0] == value;
  return plain ? at : graph.nodes.size();
}

// Fuses `gelu` into the preceding layer. The pre-activation stays a value, for its other reader, the gradient.
bool fuse_forward(Graph& graph, const Node& gelu, const std::vector<int>& uses) {
  const ValueId pre = gelu.inputs[0], y = gelu.outputs[0];
  const std::size_t at = plain_producer(graph, pre, Op::kLinear);
  if (at == graph.nodes.size() || type_of(graph, pre) != type_of(graph, y)) return false;
  Node& layer = graph.nodes[at];
  layer.attrs.activation = Activation::kGelu;
  layer.attrs.pre_output = uses[static_cast<std::size_t>(pre)] > 1;
  layer.outputs = {y};
  if (layer.attrs.pre_output) layer.outputs.push_back(pre);
  return true;
}

// Fuses `backward`, the gradient of a gelu, into the product that computes the gradient of gelu's result. Not possible
// if that product has no kernel for its result type: half precision from f32 factors.
bool fuse_backward(Graph& graph, const Node& backward, const std::vector<int>& uses) {
  const ValueId pre = backward.inputs[0], dy = backward.inputs[1], dx = backward.outputs[0];
  const std::size_t at = plain_producer(graph, dy, Op::kLinearBackwardData);
  if (at == graph.nodes.size() || uses[static_cast<std::size_t>(dy)] != 1 || producer(graph, pre) > at) return false;
  Node& product = graph.nodes[at];
  const DType type = type_of(graph, dx);
  if (type_of(graph, pre) != type || (type != DType::kF32 && type_of(graph, product.inputs[0]) != type)) return false;
  product.attrs.activation = Activation::kGelu;
  product.attrs.output = type;
  product.inputs.push_back(pre);
  product.outputs = {dx};
  return true;
}

}  // namespace

void fuse_gelu(Graph& graph) {
  const std::vector<int> uses = count_uses(graph);
  std::vector<char> fused(graph.nodes.size(), 0);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node node = graph.nodes[i];
    if (node.op == Op::kGelu) fused[i] = fuse_forward(graph, node, uses);
    if (node.op == Op::kGeluBackward) fused[i] = fuse_backward(graph, node, uses);
  }
  erase_nodes(graph, fused);
}

}  // namespace mlx::graph
