// Sums, means, maxima and minima over dimensions (attrs.axes; none: all of them).

#include <algorithm>

#include "graph/rule.h"

namespace mlx::graph {
namespace {

using kernels::Reduction;
using Ids = std::vector<ValueId>;

Dims reduced(const Rule& rule, const Attrs& attrs, const Dims& x) {
  const std::vector<std::size_t> axes = axes_of(rule, attrs, x.size());
  Dims y;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool stays = !axes.empty() && std::ranges::find(axes, i) == axes.end();
    if (stays || attrs.keep_dims) y.push_back(stays ? x[i] : Dim::of(1));
  }
  return y;
}

bool selects(const Attrs& attrs) {
  return attrs.reduction == Reduction::kMax || attrs.reduction == Reduction::kMin;
}

Ids infer_reduce(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kReduce, inputs, name);
  rule.require_f32();
  return {rule.out({}, DType::kF32, reduced(rule, attrs, rule.dims(0)))};
}

Ids infer_reduce_backward(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims* given,
                          const std::string& name) {
  Rule rule(graph, Op::kReduceBackward, inputs, name);
  rule.require_f32();
  require_given(rule, given);
  const Dims y = reduced(rule, attrs, *given);
  rule.require_shape(0, y);
  rule.require(rule.has(1) == selects(attrs) && rule.has(2) == selects(attrs),
               "a maximum or minimum, and nothing else, has the reduced tensor and its result as inputs");
  if (selects(attrs)) {
    rule.require_shape(1, *given);
    rule.require_shape(2, y);
  }
  return {rule.out({}, DType::kF32, *given)};
}

Ids backward_reduce(Graph& graph, const Node& node, const Ids& gradients) {
  Ids inputs{gradients[0]};
  if (selects(node.attrs)) inputs.insert(inputs.end(), {node.inputs[0], node.outputs[0]});
  const Dims x = graph.value(node.inputs[0]).dims;
  return graph.add_shaped(Op::kReduceBackward, node.attrs, inputs, x, node.name + ".backward");
}

}  // namespace

std::vector<OpDef> reduce_ops() {
  return {
      {.op = Op::kReduce,
       .text = {"x -> y", "reduction axes keep_dims",
                "Reduction over axes (none: all dimensions); keep_dims keeps them with size 1. Of no elements the "
                "sum is 0, the mean NaN, the maximum -inf, the minimum inf."},
       .infer = infer_reduce,
       .backward = backward_reduce,
       .cost = per_input<1>},
      {.op = Op::kReduceBackward,
       .text = {"dy, (x), (y) -> dx", "reduction axes keep_dims",
                "Gradient of reduce; that of a maximum or minimum, which needs x and y, goes to the first element "
                "equal to it."},
       .infer = infer_reduce_backward,
       .cost = per_output<1>},
  };
}

}  // namespace mlx::graph
