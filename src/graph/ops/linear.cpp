// Linear layers: y = act(x · wᵀ + b), f32 and quantized, and their gradients.

#include "graph/ops/rule.h"

namespace mlx::graph {
namespace {

using Ids = std::vector<ValueId>;

Ids infer(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kLinear, inputs, name);
  rule.require_rank(1, 2);
  const std::int64_t n = rule.size(1, 0), k = rule.size(1, 1);
  rule.require(rule.rank(0) >= 1 && rule.dims(0).back() == Dim::of(k),
               "the input's last dimension is not the weights' last");
  if (rule.has(2)) {
    rule.require_dtype(2, DType::kF32);
    rule.require_vector(2, n);
  }
  const bool quantized = rule.dtype(1) == DType::kS8;
  if (quantized) {
    rule.require(rule.dtype(0) == DType::kU8 || rule.dtype(0) == DType::kS8, "s8 weights need a u8 or s8 input");
    rule.require(rule.has(3), "s8 weights need their scales");
    rule.require_dtype(3, DType::kF32);
    rule.require_vector(3, n);
    rule.require(attrs.output == DType::kF32 || attrs.output == DType::kU8 || attrs.output == DType::kS8,
                 "the output must be f32, u8 or s8");
    rule.require(attrs.scale_x > 0 && attrs.scale_y > 0, "scales must be positive");
  } else {
    rule.require(!rule.has(3), "scales are for s8 weights");
    rule.require_f32();
    rule.require(attrs.output == DType::kF32, "the output of f32 weights is f32");
  }
  return {rule.out({}, quantized ? attrs.output : DType::kF32, with_last(rule.dims(0), Dim::of(n)))};
}

Ids infer_backward_data(Graph& graph, const Attrs&, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kLinearBackwardData, inputs, name);
  rule.require_f32();
  rule.require_rank(1, 2);
  rule.require(rule.rank(0) >= 1 && rule.dims(0).back() == Dim::of(rule.size(1, 0)),
               "the gradient's last dimension is not the weights' first");
  return {rule.out({}, DType::kF32, with_last(rule.dims(0), Dim::of(rule.size(1, 1))))};
}

Ids infer_backward_weights(Graph& graph, const Attrs&, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kLinearBackwardWeights, inputs, name);
  rule.require_f32();
  rule.require(rule.rank(0) >= 1 && rule.rank(1) >= 1 && without_last(rule.dims(0)) == without_last(rule.dims(1)),
               "input and gradient differ before their last dimension");
  const Dim n = Dim::of(rule.size(1, -1)), k = Dim::of(rule.size(0, -1));
  const ValueId dw = rule.out({}, DType::kF32, {n, k});
  return {dw, rule.out("bias", DType::kF32, {n})};
}

Ids backward(Graph& graph, const Node& node, const Ids& gradients) {
  const ValueId dy = before_activation(graph, node, gradients[0]);
  const bool bias = node.inputs.size() > 2 && node.inputs[2] != kNone;
  const ValueId dx = graph.add(Op::kLinearBackwardData, {}, {dy, node.inputs[1]}, node.name + ".backward_data")[0];
  const Ids dw = graph.add(Op::kLinearBackwardWeights, {}, {node.inputs[0], dy}, node.name + ".backward_weights");
  return {dx, dw[0], bias ? dw[1] : kNone};
}

// Every product of the first input with the weights: 2 · rows · N · K.
Cost cost(const Node&, std::span<const kernels::Shape> inputs, std::span<const kernels::Shape> outputs) {
  return with_bytes(2.0 * count_of(outputs[0]) * static_cast<double>(inputs[1].dims[1]), inputs, outputs);
}
Cost cost_backward_data(const Node&, std::span<const kernels::Shape> inputs, std::span<const kernels::Shape> outputs) {
  return with_bytes(2.0 * count_of(outputs[0]) * static_cast<double>(inputs[1].dims[0]), inputs, outputs);
}
Cost cost_backward_weights(const Node&, std::span<const kernels::Shape> inputs,
                           std::span<const kernels::Shape> outputs) {
  return with_bytes(2.0 * count_of(inputs[0]) * static_cast<double>(outputs[0].dims[0]), inputs, outputs);
}

}  // namespace

std::vector<OpDef> linear_ops() {
  return {
      {.op = Op::kLinear, .required_inputs = 2, .max_inputs = 4, .infer = infer, .backward = backward, .cost = cost},
      {.op = Op::kLinearBackwardData,
       .required_inputs = 2,
       .max_inputs = 2,
       .infer = infer_backward_data,
       .cost = cost_backward_data},
      {.op = Op::kLinearBackwardWeights,
       .required_inputs = 2,
       .max_inputs = 2,
       .optional_outputs = 1u << 1,
       .infer = infer_backward_weights,
       .cost = cost_backward_weights},
  };
}

}  // namespace mlx::graph
