// Linear layers: y = act(x · wᵀ + b), f32, half and quantized, and their gradients.

#include "graph/rule.h"

namespace mlx::graph {
namespace {

using Ids = std::vector<ValueId>;

Ids infer_linear(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kLinear, inputs, name);
  rule.require_rank(1, 2);
  const std::int64_t n = rule.size(1, 0), k = rule.size(1, 1);
  rule.require(rule.rank(0) >= 1 && rule.dims(0).back() == Dim::of(k),
               "the input's last dimension is not the weights' last");
  const DType type = product_type(rule, attrs, {Dim::of(n)});
  const Dims dims = with_last(rule.dims(0), Dim::of(n));
  Ids outputs{rule.out({}, type, dims)};
  if (!attrs.pre_output) return outputs;
  rule.require(attrs.activation == Activation::kGelu && rule.dtype(1) != DType::kS8,
               "the pre-activation is an output only with gelu, and only if not quantized");
  outputs.push_back(rule.out("pre", type, dims));
  return outputs;
}

Ids infer_linear_backward_data(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*,
                               const std::string& name) {
  Rule rule(graph, Op::kLinearBackwardData, inputs, name);
  rule.require_rank(1, 2);
  rule.require(rule.rank(0) >= 1 && rule.dims(0).back() == Dim::of(rule.size(1, 0)),
               "the gradient's last dimension is not the weights' first");
  const DType type = gradient_type(rule, attrs);
  const Dims dims = with_last(rule.dims(0), Dim::of(rule.size(1, 1)));
  rule.require(attrs.activation == (rule.has(2) ? Activation::kGelu : Activation::kNone),
               "gelu, and only gelu, has an input 2, the pre-activation");
  if (rule.has(2)) {
    rule.require_dtype(2, type);
    rule.require_shape(2, dims);
  }
  return {rule.out({}, type, dims)};
}

Ids infer_linear_backward_weights(Graph& graph, const Attrs&, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kLinearBackwardWeights, inputs, name);
  require_same_reals(rule);
  rule.require(rule.rank(0) >= 1 && rule.rank(1) >= 1 && without_last(rule.dims(0)) == without_last(rule.dims(1)),
               "input and gradient differ before their last dimension");
  const Dim n = Dim::of(rule.size(1, -1)), k = Dim::of(rule.size(0, -1));
  const ValueId dw = rule.out({}, DType::kF32, {n, k});
  return {dw, rule.out("bias", DType::kF32, {n})};
}

Ids backward_linear(Graph& graph, const Node& node, const Ids& gradients) {
  const ValueId dy = before_activation(graph, node, gradients[0]);
  const bool bias = node.inputs.size() > 2 && node.inputs[2] != kNone;
  const ValueId dx = graph.add(Op::kLinearBackwardData, {}, {dy, node.inputs[1]}, node.name + ".backward_data")[0];
  const Ids dw = graph.add(Op::kLinearBackwardWeights, {}, {node.inputs[0], dy}, node.name + ".backward_weights");
  return {dx, dw[0], bias ? dw[1] : kNone};
}

// Each row of the first input times the weights: 2 · rows · N · K.
Cost cost_linear(const Node&, std::span<const kernels::Shape> inputs, std::span<const kernels::Shape> outputs) {
  return with_bytes(2.0 * count_of(outputs[0]) * static_cast<double>(inputs[1].dims[1]), inputs, outputs);
}
Cost cost_linear_backward_data(const Node&, std::span<const kernels::Shape> inputs,
                               std::span<const kernels::Shape> outputs) {
  return with_bytes(2.0 * count_of(outputs[0]) * static_cast<double>(inputs[1].dims[0]), inputs, outputs);
}
Cost cost_linear_backward_weights(const Node&, std::span<const kernels::Shape> inputs,
                                  std::span<const kernels::Shape> outputs) {
  return with_bytes(2.0 * count_of(inputs[0]) * static_cast<double>(outputs[0].dims[0]), inputs, outputs);
}

StartValue start_of_linear(const Node&, std::size_t input, const kernels::Shape& shape) {
  if (input != 1) return {};
  return {StartValue::kWeights, static_cast<double>(shape.dims[1]), static_cast<double>(shape.dims[0])};
}

}  // namespace

std::vector<OpDef> linear_ops() {
  return {
      {.op = Op::kLinear,
       .text = {"x real|byte[...,K], w real|s8[N,K], (b[N]), (w_scales[N]) -> y real|byte[...,N], (pre "
                "real[...,N])",
                "activation output scale_x scale_y tf32 pre_output",
                "Linear layer: y = act(x w^T + b). With w in s8, w_scales and scale_x are the scales of w and x, "
                "and scale_y that of a y in eight bits. pre is the pre-activation of gelu."},
       .optional_outputs = 1u << 1,
       .stores_half = true,
       .product = true,
       .layer = true,
       .eight_bits = EightBits::kLayer,
       .fuses = bit_of(Activation::kRelu) | bit_of(Activation::kRelu6) | bit_of(Activation::kGelu),
       .infer = infer_linear,
       .backward = backward_linear,
       .cost = cost_linear,
       .start = start_of_linear},
      {.op = Op::kLinearBackwardData,
       .text = {"dy real[...,N], w real[N,K], (pre real[...,K]) -> dx real[...,K]", "activation output tf32",
                "Gradient of a linear layer with respect to its input. With pre, the activation is gelu and dx = "
                "(dy w) gelu'(pre): the gradient of the previous layer's pre-activation."},
       .stores_half = true,
       .product = true,
       .infer = infer_linear_backward_data,
       .cost = cost_linear_backward_data},
      {.op = Op::kLinearBackwardWeights,
       .text = {"x real[...,K], dy real[...,N] -> dw[N,K], (db[N])", "tf32",
                "Gradients of a linear layer with respect to its weights and bias."},
       .optional_outputs = 1u << 1,
       .product = true,
       .infer = infer_linear_backward_weights,
       .cost = cost_linear_backward_weights},
  };
}

}  // namespace mlx::graph
