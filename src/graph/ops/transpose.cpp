// Transpose: output dim i is input dim attrs.axes[i].

#include "graph/rule.h"

namespace mlx::graph {
namespace {

using Ids = std::vector<ValueId>;

Ids infer_transpose(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kTranspose, inputs, name);
  const Dims x = rule.dims(0);
  const std::vector<std::size_t> axes = axes_of(rule, attrs, x.size());
  rule.require(axes.size() == x.size(), "axes must name every dimension once");
  Dims y;
  for (const std::size_t axis : axes) y.push_back(x[axis]);
  return {rule.out({}, rule.dtype(0), y)};
}

Ids backward_transpose(Graph& graph, const Node& node, const Ids& gradients) {
  Attrs inverse;
  inverse.axes.count = node.attrs.axes.count;
  for (std::size_t i = 0; i < static_cast<std::size_t>(inverse.axes.count); ++i)
    inverse.axes.at[static_cast<std::size_t>(node.attrs.axes.at[i])] = static_cast<std::int64_t>(i);
  return graph.add(Op::kTranspose, inverse, {gradients[0]}, node.name + ".backward");
}

}  // namespace

std::vector<OpDef> transpose_ops() {
  return {{.op = Op::kTranspose,
           .text = {"x any -> y any", "axes", "Dimension i of y is dimension axes[i] of x."},
           .eight_bits = EightBits::kKeepsScale,
           .infer = infer_transpose,
           .backward = backward_transpose,
           .cost = per_output<0>}};
}

}  // namespace mlx::graph
