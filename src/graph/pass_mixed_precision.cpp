// Mixed precision for training: f32 everywhere but in what is multiplied (Kalamkar et al. 2019, "A Study of BFLOAT16
// for Deep Learning Training"). bf16 has f32's exponents, so no loss is scaled; weights are rounded by the kernels that
// pack them, from f32 parameters that nothing else ever rounds.

#include <unordered_map>
#include <utility>

#include "graph/passes.h"

namespace mlx::graph {
namespace {

constexpr std::int64_t kFewChannels = 4;  // of the images that kernels of their own convolve in f32

bool wide_conv(const Node& node, const Value& weights) {
  return node.attrs.groups == 1 && weights.dims[3].size > kFewChannels;
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

}  // namespace

void multiply_in_bf16(Graph& graph) {
  std::vector<Node> nodes = std::exchange(graph.nodes, {});
  std::unordered_map<ValueId, ValueId> casts;
  Attrs to_bf16;
  to_bf16.output = DType::kBF16;
  for (Node& node : nodes) {
    const std::size_t count = factors(graph, node);
    for (std::size_t i = 0; i < count; ++i) {
      const ValueId value = node.inputs[i];
      const auto [cast, is_new] = casts.try_emplace(value, kNone);
      if (is_new) cast->second = graph.add(Op::kCast, to_bf16, {value}, graph.value(value).name + ".bf16")[0];
      node.inputs[i] = cast->second;
    }
    graph.nodes.push_back(std::move(node));
  }
}

}  // namespace mlx::graph
