// Concatenation along attrs.axis, and its gradient, which cuts dy into the parts. The gradient takes the parts for
// their sizes. If that keeps them alive longer, they need no more memory than their gradients.

#include "graph/rule.h"

namespace mlx::graph {
namespace {

using Ids = std::vector<ValueId>;

// The concatenated dims of the parts, which are the inputs from `first` on.
Dims whole_of(const Rule& rule, const Attrs& attrs, std::size_t first, std::size_t inputs) {
  Dims whole = rule.dims(first);
  rule.require(attrs.axis >= 0 && attrs.axis < static_cast<std::int64_t>(whole.size()), "axis must be a dimension");
  const auto axis = static_cast<std::size_t>(attrs.axis);
  for (std::size_t i = first + 1; i < inputs; ++i) {
    rule.require(rule.has(i), "an absent part precedes another one");
    rule.require_dtype(i, rule.dtype(first));
    rule.require_rank(i, whole.size());
    Dims part = rule.dims(i);
    const Dim size = part[axis];
    part[axis] = rule.dims(first)[axis];
    rule.require(part == rule.dims(first), "the parts differ in another dimension than axis");
    whole[axis] = whole[axis] + size;
  }
  return whole;
}

Ids infer_concat(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kConcat, inputs, name);
  return {rule.out({}, rule.dtype(0), whole_of(rule, attrs, 0, inputs.size()))};
}

Ids infer_concat_backward(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kConcatBackward, inputs, name);
  rule.require_f32();
  rule.require_shape(0, whole_of(rule, attrs, 1, inputs.size()));
  Ids gradients;
  for (std::size_t i = 1; i < inputs.size(); ++i)
    gradients.push_back(rule.out(fmt::format("{}", i - 1), DType::kF32, rule.dims(i)));
  return gradients;
}

Ids backward_concat(Graph& graph, const Node& node, const Ids& gradients) {
  Ids inputs{gradients[0]};
  inputs.insert(inputs.end(), node.inputs.begin(), node.inputs.end());
  return graph.add(Op::kConcatBackward, node.attrs, inputs, node.name + ".backward");
}

}  // namespace

std::vector<OpDef> concat_ops() {
  return {
      {.op = Op::kConcat,
       .text = {"x0 any, (x1 any), (x2 any), (x3 any), (x4 any), (x5 any), (x6 any) -> y any", "axis",
                "The inputs one after another along axis."},
       .infer = infer_concat,
       .backward = backward_concat,
       .cost = per_output<0>},
      {.op = Op::kConcatBackward,
       .text = {"dy, x0, (x1), (x2), (x3), (x4), (x5), (x6) -> dx0, (dx1), (dx2), (dx3), (dx4), (dx5), (dx6)", "axis",
                "Gradients of concat; of the inputs only the sizes are read."},
       .optional_outputs = 0x7f,
       .infer = infer_concat_backward},
  };
}

}  // namespace mlx::graph
