// Elementwise operations: activations, gated activations, addition, learned positions.

#include "graph/rule.h"

namespace mlx::graph {
namespace {

using Ids = std::vector<ValueId>;

// Activations and their gradients: tensors that are kept for the backward pass, or enter products, may be stored in
// half precision. The input of relu6's gradient may not: values that round to 6 would lose their gradient.
template <Op kOp>
Ids infer_activation(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, kOp, inputs, name);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    rule.require_real(i);
    rule.require_shape(i, rule.dims(0));
  }
  return {rule.out({}, stored_type(rule, attrs), rule.dims(0))};
}

template <Op kBackward>
Ids backward_from_output(Graph& graph, const Node& node, const Ids& gradients) {
  return graph.add(kBackward, {}, {node.outputs[0], gradients[0]}, node.name + ".backward");
}

Ids backward_gelu(Graph& graph, const Node& node, const Ids& gradients) {
  return graph.add(Op::kGeluBackward, {}, {node.inputs[0], gradients[0]}, node.name + ".backward");
}

// x[…,2H] → […,H].
Dims gated(const Rule& rule) {
  const std::int64_t width = rule.size(0, -1);
  rule.require(width % 2 == 0, "the last dimension must hold gate and up, equally wide");
  return with_last(rule.dims(0), Dim::of(width / 2));
}

Ids infer_swiglu(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kSwiGlu, inputs, name);
  rule.require_real(0);
  return {rule.out({}, stored_type(rule, attrs), gated(rule))};
}

Ids infer_swiglu_backward(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kSwiGluBackward, inputs, name);
  rule.require_real(0);
  rule.require_real(1);
  rule.require_shape(1, gated(rule));
  return {rule.out({}, stored_type(rule, attrs), rule.dims(0))};
}

Ids backward_swiglu(Graph& graph, const Node& node, const Ids& gradients) {
  return graph.add(Op::kSwiGluBackward, {}, {node.inputs[0], gradients[0]}, node.name + ".backward");
}

Ids infer_add(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kAdd, inputs, name);
  rule.require(attrs.activation != Activation::kGelu, "only relu and relu6 can be fused");
  rule.require_f32();
  rule.require_shape(1, rule.dims(0));
  return {rule.out({}, DType::kF32, rule.dims(0))};
}

Ids backward_add(Graph& graph, const Node& node, const Ids& gradients) {
  const ValueId gradient = before_activation(graph, node, gradients[0]);
  return {gradient, gradient};
}

Ids infer_scaled_add(Graph& graph, const Attrs&, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kScaledAdd, inputs, name);
  rule.require_f32();
  rule.require_shape(1, rule.dims(0));
  return {rule.out({}, DType::kF32, rule.dims(0))};
}

// Each input's gradient is the sum's times its factor. If one value is both inputs, it is multiplied by both factors.
Ids backward_scaled_add(Graph& graph, const Node& node, const Ids& gradients) {
  const auto scaled = [&](float factor, const char* what) {
    Attrs attrs;
    attrs.scale_a = factor;
    attrs.scale_b = 0;
    return graph.add(Op::kScaledAdd, attrs, {gradients[0], gradients[0]}, node.name + what)[0];
  };
  const float a = node.attrs.scale_a, b = node.attrs.scale_b;
  if (node.inputs[0] == node.inputs[1]) return {scaled(a + b, ".backward"), kNone};
  const ValueId da = scaled(a, ".backward_a");
  return {da, scaled(b, ".backward_b")};
}

// x[B,T,D]; `positions` (input `at`), if present, is s32[B].
void require_positions(const Rule& rule, std::size_t at) {
  rule.require_rank(0, 3);
  rule.require_dtype(0, DType::kF32);
  if (!rule.has(at)) return;
  rule.require_dtype(at, DType::kS32);
  rule.require_shape(at, {rule.dims(0)[0]});
}

Ids infer_add_positions(Graph& graph, const Attrs&, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kAddPositions, inputs, name);
  require_positions(rule, 2);
  rule.require_dtype(1, DType::kF32);
  rule.require_rank(1, 2);
  rule.require(rule.size(1, 1) == rule.size(0, -1), "table and input differ in width");
  const Dim t = rule.dims(0)[1];
  rule.require(t.symbolic() || t.size <= rule.size(1, 0), "the sequence is longer than the table");
  return {rule.out({}, DType::kF32, rule.dims(0))};
}

Ids infer_add_positions_backward(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*,
                                 const std::string& name) {
  Rule rule(graph, Op::kAddPositionsBackward, inputs, name);
  require_positions(rule, 1);
  rule.require(attrs.axis >= 1, "the number of positions must be given");
  return {rule.out({}, DType::kF32, {Dim::of(attrs.axis), Dim::of(rule.size(0, -1))})};
}

Ids backward_add_positions(Graph& graph, const Node& node, const Ids& gradients) {
  Attrs attrs;
  attrs.axis = graph.value(node.inputs[1]).dims[0].size;
  Ids inputs{gradients[0]};
  if (node.inputs.size() > 2) inputs.push_back(node.inputs[2]);
  const ValueId dtable = graph.add(Op::kAddPositionsBackward, attrs, inputs, node.name + ".backward")[0];
  return {gradients[0], dtable, kNone};
}

}  // namespace

std::vector<OpDef> pointwise_ops() {
  return {
      {.op = Op::kRelu,
       .in_place = 1u << 0,
       .stores_half = true,
       .activation = Activation::kRelu,
       .infer = infer_activation<Op::kRelu>,
       .backward = backward_from_output<Op::kReluBackward>,
       .cost = per_output<1>},
      {.op = Op::kReluBackward,
       .in_place = 1u << 1,
       .reads_half = (1u << 0) | (1u << 1),
       .stores_half = true,
       .infer = infer_activation<Op::kReluBackward>,
       .cost = per_output<1>},
      {.op = Op::kRelu6,
       .in_place = 1u << 0,
       .stores_half = true,
       .activation = Activation::kRelu6,
       .infer = infer_activation<Op::kRelu6>,
       .backward = backward_from_output<Op::kRelu6Backward>,
       .cost = per_output<2>},
      {.op = Op::kRelu6Backward,
       .in_place = 1u << 1,
       .reads_half = 1u << 1,
       .stores_half = true,
       .infer = infer_activation<Op::kRelu6Backward>,
       .cost = per_output<2>},
      {.op = Op::kGelu,
       .reads_half = 1u << 0,
       .stores_half = true,
       .activation = Activation::kGelu,
       .infer = infer_activation<Op::kGelu>,
       .backward = backward_gelu,
       .cost = per_output<10>},
      {.op = Op::kGeluBackward,
       .in_place = 1u << 1,
       .reads_half = (1u << 0) | (1u << 1),
       .stores_half = true,
       .infer = infer_activation<Op::kGeluBackward>,
       .cost = per_output<16>},
      {.op = Op::kAdd,
       .in_place = (1u << 0) | (1u << 1),
       .fuses = bit_of(Activation::kRelu) | bit_of(Activation::kRelu6),
       .infer = infer_add,
       .backward = backward_add,
       .cost = per_output<1>},
      {.op = Op::kScaledAdd,
       .in_place = (1u << 0) | (1u << 1),
       .infer = infer_scaled_add,
       .backward = backward_scaled_add,
       .cost = per_output<3>},
  };
}

std::vector<OpDef> swiglu_ops() {
  return {
      {.op = Op::kSwiGlu,
       .reads_half = 1u << 0,
       .stores_half = true,
       .infer = infer_swiglu,
       .backward = backward_swiglu,
       .cost = per_output<12>},
      {.op = Op::kSwiGluBackward,
       .reads_half = (1u << 0) | (1u << 1),
       .stores_half = true,
       .infer = infer_swiglu_backward,
       .cost = per_output<10>},
  };
}

std::vector<OpDef> positions_ops() {
  return {
      {.op = Op::kAddPositions,
       .infer = infer_add_positions,
       .backward = backward_add_positions,
       .cost = per_output<1>,
       .start = start_of_table<1>},
      {.op = Op::kAddPositionsBackward, .infer = infer_add_positions_backward, .cost = per_input<1>},
  };
}

}  // namespace mlx::graph
