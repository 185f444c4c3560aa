// Arithmetic on two tensors with NumPy's broadcasting rules; attrs.arithmetic selects the operation.

#include "graph/rule.h"

namespace mlx::graph {
namespace {

using kernels::Arithmetic;
using Ids = std::vector<ValueId>;

Ids infer_arithmetic(Graph& graph, const Attrs&, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kArithmetic, inputs, name);
  rule.require_f32();
  return {rule.out({}, DType::kF32, broadcast(rule, rule.dims(0), rule.dims(1)))};
}

Ids infer_arithmetic_backward(Graph& graph, const Attrs&, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kArithmeticBackward, inputs, name);
  rule.require_f32();
  const Dims y = broadcast(rule, rule.dims(0), rule.dims(1));
  rule.require_shape(2, y);
  const ValueId da = rule.out("a", DType::kF32, y);
  return {da, rule.out("b", DType::kF32, y)};
}

// The gradients with respect to a and b, both in y's shape. Those of a sum need no work. Those of products and
// quotients are products and quotients again, which are faster than the general gradient operation.
Ids slopes(Graph& graph, const Node& node, ValueId dy) {
  const ValueId a = node.inputs[0], b = node.inputs[1], y = node.outputs[0];
  const std::string name = node.name + ".backward";
  const auto make = [&](Arithmetic arithmetic, ValueId of, ValueId by, const char* what) {
    Attrs attrs;
    attrs.arithmetic = arithmetic;
    return graph.add(Op::kArithmetic, attrs, {of, by}, name + what)[0];
  };
  const auto negative = [&](ValueId of) {
    Attrs attrs;
    attrs.scale_a = -1, attrs.scale_b = 0;
    return graph.add(Op::kScaledAdd, attrs, {of, of}, name + "_b")[0];
  };
  switch (node.attrs.arithmetic) {
    case Arithmetic::kAdd:
      return {dy, dy};
    case Arithmetic::kSub:
      return {dy, negative(dy)};
    case Arithmetic::kMul: {
      const ValueId da = make(Arithmetic::kMul, dy, b, "_a");
      return {da, make(Arithmetic::kMul, dy, a, "_b")};
    }
    case Arithmetic::kDiv: {  // da = dy / b; db = -(dy / b) · (a / b)
      const ValueId da = make(Arithmetic::kDiv, dy, b, "_a");
      return {da, negative(make(Arithmetic::kMul, da, y, "_share"))};
    }
    default:
      return graph.add(Op::kArithmeticBackward, node.attrs, {a, b, dy}, name);
  }
}

Ids backward_arithmetic(Graph& graph, const Node& node, const Ids& gradients) {
  const Ids wide = slopes(graph, node, gradients[0]);
  const Dims a = graph.value(node.inputs[0]).dims, b = graph.value(node.inputs[1]).dims;
  const ValueId da = sum_to(graph, wide[0], a, node.name + ".backward_sum_a");
  return {da, sum_to(graph, wide[1], b, node.name + ".backward_sum_b")};
}

// The value that leaves the other operand unchanged.
StartValue start_of_operand(const Node& node, std::size_t, const kernels::Shape&) {
  const Arithmetic kind = node.attrs.arithmetic;
  return {kind == Arithmetic::kMul || kind == Arithmetic::kDiv || kind == Arithmetic::kPow ? StartValue::kOne
                                                                                           : StartValue::kZero};
}

}  // namespace

std::vector<OpDef> arithmetic_ops() {
  return {
      {.op = Op::kArithmetic,
       .text = {"a, b -> y", "arithmetic",
                "y = a OP b by the broadcasting rules of NumPy. The maximum and minimum of NaN and a number are "
                "NaN."},
       .infer = infer_arithmetic,
       .backward = backward_arithmetic,
       .cost = per_output<1>,
       .start = start_of_operand},
      {.op = Op::kArithmeticBackward,
       .text = {"a, b, dy -> (da), (db)", "arithmetic",
                "Gradients of arithmetic, in the shape of y. If a equals b, the gradient of a maximum or minimum "
                "goes to a."},
       .optional_outputs = 0b11,
       .infer = infer_arithmetic_backward,
       .cost = per_input<4>},
  };
}

}  // namespace mlx::graph
