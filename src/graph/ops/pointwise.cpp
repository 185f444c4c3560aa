// Elementwise operations: activations, gated activations, addition, learned positions.

#include <cmath>

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

Ids infer_gelu_erf(Graph& graph, const Attrs&, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kGeluErf, inputs, name);
  rule.require_f32();
  return {rule.out({}, DType::kF32, rule.dims(0))};
}

// x[…,2H] → […,H].
Dims gated(const Rule& rule) {
  const std::int64_t width = rule.size(0, -1);
  rule.require(width % 2 == 0, "the last dimension must hold gate and up, equally wide");
  return with_last(rule.dims(0), Dim::of(width / 2));
}

void require_gate(const Rule& rule, const Attrs& attrs) {
  rule.require(attrs.activation == Activation::kNone || attrs.activation == Activation::kGelu,
               "the activation must be none, which stands for SiLU, or gelu");
}

Ids infer_swiglu(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kSwiGlu, inputs, name);
  rule.require_real(0);
  require_gate(rule, attrs);
  return {rule.out({}, stored_type(rule, attrs), gated(rule))};
}

Ids infer_swiglu_backward(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kSwiGluBackward, inputs, name);
  rule.require_real(0);
  rule.require_real(1);
  rule.require_shape(1, gated(rule));
  require_gate(rule, attrs);
  return {rule.out({}, stored_type(rule, attrs), rule.dims(0))};
}

Ids backward_swiglu(Graph& graph, const Node& node, const Ids& gradients) {
  Attrs attrs;
  attrs.activation = node.attrs.activation;
  return graph.add(Op::kSwiGluBackward, attrs, {node.inputs[0], gradients[0]}, node.name + ".backward");
}

template <Op kOp>
Ids infer_soft_cap(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims* dims, const std::string& name) {
  Rule rule(graph, kOp, inputs, name);
  rule.require(attrs.cap > 0 && std::isfinite(attrs.cap), "the cap must be above 0");
  return infer_activation<kOp>(graph, attrs, inputs, dims, name);
}

Ids backward_soft_cap(Graph& graph, const Node& node, const Ids& gradients) {
  Attrs attrs;
  attrs.cap = node.attrs.cap;
  return graph.add(Op::kSoftCapBackward, attrs, {node.inputs[0], gradients[0]}, node.name + ".backward");
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
       .text = {"x -> y real", "output", "Rectified linear unit: y = max(x, 0)."},
       .in_place = 1u << 0,
       .stores_half = true,
       .divided = Divided::kElements,
       .activation = Activation::kRelu,
       .infer = infer_activation<Op::kRelu>,
       .backward = backward_from_output<Op::kReluBackward>,
       .cost = per_output<1>},
      {.op = Op::kReluBackward,
       .text = {"y real, dy real -> dx real", "output", "Gradient of relu: dx = dy where y > 0, else 0."},
       .in_place = 1u << 1,
       .reads_half = (1u << 0) | (1u << 1),
       .stores_half = true,
       .infer = infer_activation<Op::kReluBackward>,
       .cost = per_output<1>},
      {.op = Op::kRelu6,
       .text = {"x -> y real", "output", "y = min(max(x, 0), 6) (Krizhevsky 2010)."},
       .in_place = 1u << 0,
       .stores_half = true,
       .divided = Divided::kElements,
       .activation = Activation::kRelu6,
       .infer = infer_activation<Op::kRelu6>,
       .backward = backward_from_output<Op::kRelu6Backward>,
       .cost = per_output<2>},
      {.op = Op::kRelu6Backward,
       .text = {"y, dy real -> dx real", "output", "Gradient of relu6: dx = dy where 0 < y < 6, else 0."},
       .in_place = 1u << 1,
       .reads_half = 1u << 1,
       .stores_half = true,
       .infer = infer_activation<Op::kRelu6Backward>,
       .cost = per_output<2>},
      {.op = Op::kGelu,
       .text = {"x real -> y real", "output",
                "Gaussian error linear unit, by the tanh approximation (Hendrycks & Gimpel 2016)."},
       .reads_half = 1u << 0,
       .stores_half = true,
       .divided = Divided::kElements,
       .activation = Activation::kGelu,
       .infer = infer_activation<Op::kGelu>,
       .backward = backward_gelu,
       .cost = per_output<10>},
      {.op = Op::kGeluBackward,
       .text = {"x real, dy real -> dx real", "output", "Gradient of gelu."},
       .in_place = 1u << 1,
       .reads_half = (1u << 0) | (1u << 1),
       .stores_half = true,
       .infer = infer_activation<Op::kGeluBackward>,
       .cost = per_output<16>},
      {.op = Op::kGeluErf,
       .text = {"x -> y", "",
                "Gaussian error linear unit by the normal distribution itself (Hendrycks & Gimpel 2016)."},
       .infer = infer_gelu_erf,
       .cost = per_output<12>},
      {.op = Op::kSoftCap,
       .text = {"x -> y real", "cap output", "y = cap tanh(x / cap): bounds x, and leaves small numbers nearly alone."},
       .reads_half = 1u << 0,
       .stores_half = true,
       .divided = Divided::kElements,
       .infer = infer_soft_cap<Op::kSoftCap>,
       .backward = backward_soft_cap,
       .cost = per_output<10>},
      {.op = Op::kSoftCapBackward,
       .text = {"x real, dy real -> dx real", "cap output", "Gradient of soft_cap."},
       .in_place = 1u << 1,
       .reads_half = (1u << 0) | (1u << 1),
       .stores_half = true,
       .infer = infer_soft_cap<Op::kSoftCapBackward>,
       .cost = per_output<12>},
      {.op = Op::kAdd,
       .text = {"a, b -> y", "activation", "y = act(a + b) of two tensors of one shape."},
       .in_place = (1u << 0) | (1u << 1),
       .fuses = bit_of(Activation::kRelu) | bit_of(Activation::kRelu6),
       .infer = infer_add,
       .backward = backward_add,
       .cost = per_output<1>},
      {.op = Op::kScaledAdd,
       .text = {"a, b -> y", "scale_a scale_b", "y = scale_a a + scale_b b of two tensors of one shape."},
       .in_place = (1u << 0) | (1u << 1),
       .infer = infer_scaled_add,
       .backward = backward_scaled_add,
       .cost = per_output<3>},
  };
}

std::vector<OpDef> swiglu_ops() {
  return {
      {.op = Op::kSwiGlu,
       .text = {"x[...,2H] -> y real[...,H]", "activation output",
                "Gated linear unit with SiLU (Shazeer 2020): y = silu(gate) up, where x holds the gate, then up. With "
                "activation gelu, y = gelu(gate) up."},
       .reads_half = 1u << 0,
       .stores_half = true,
       .divided = Divided::kHalves,
       .infer = infer_swiglu,
       .backward = backward_swiglu,
       .cost = per_output<12>},
      {.op = Op::kSwiGluBackward,
       .text = {"x[...,2H], dy real[...,H] -> dx real[...,2H]", "activation output", "Gradient of swiglu."},
       .reads_half = (1u << 0) | (1u << 1),
       .stores_half = true,
       .infer = infer_swiglu_backward,
       .cost = per_output<10>},
  };
}

std::vector<OpDef> positions_ops() {
  return {
      {.op = Op::kAddPositions,
       .text = {"x[B,T,D], table[P,D], (positions s32[B]) -> y[B,T,D]", "",
                "Learned position embedding: adds row t + positions[b] of the table to x[b,t]; positions defaults "
                "to 0. A position outside the table adds nothing."},
       .infer = infer_add_positions,
       .backward = backward_add_positions,
       .cost = per_output<1>,
       .start = start_of_table<1>},
      {.op = Op::kAddPositionsBackward,
       .text = {"dy[B,T,D], (positions s32[B]) -> dtable[P,D]", "axis",
                "Gradient of add_positions with respect to its table; axis is P."},
       .infer = infer_add_positions_backward,
       .cost = per_input<1>},
  };
}

}  // namespace mlx::graph
