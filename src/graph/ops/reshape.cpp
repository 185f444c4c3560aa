// Another shape for the same elements in the same order. No work: the planner makes it a view.

#include <algorithm>

#include "graph/rule.h"

namespace mlx::graph {
namespace {

using Ids = std::vector<ValueId>;

// True if two shapes have the same number of elements, whatever the symbols are. Sizes that occur in both need not be
// multiplied.
bool same_count(Dims a, Dims b) {
  for (auto dim = a.begin(); dim != a.end();) {
    const auto other = std::ranges::find(b, *dim);
    const bool cancels = other != b.end() && *dim != Dim::of(0);
    if (cancels) b.erase(other);
    dim = cancels ? a.erase(dim) : dim + 1;
  }
  return product_of(a) == product_of(b);
}

Ids infer_reshape(Graph& graph, const Attrs&, const Ids& inputs, const Dims* given, const std::string& name) {
  Rule rule(graph, Op::kReshape, inputs, name);
  rule.require(given != nullptr && given->size() <= kernels::kMaxRank, "the output's shape must be given");
  rule.require(same_count(rule.dims(0), *given),
               fmt::format("the shape {} holds another number of elements", to_text(graph, *given)));
  return {rule.out({}, rule.dtype(0), *given)};
}

Ids backward_reshape(Graph& graph, const Node& node, const Ids& gradients) {
  const Dims x = graph.value(node.inputs[0]).dims;
  return graph.add_shaped(Op::kReshape, {}, {gradients[0]}, x, node.name + ".backward");
}

Cost cost_reshape(const Node&, std::span<const kernels::Shape>, std::span<const kernels::Shape>) {
  return {};
}

}  // namespace

std::vector<OpDef> reshape_ops() {
  return {
      {.op = Op::kReshape,
       .text = {"x any -> y any", "", "The same elements in the same order under another shape, which is that of y."},
       .eight_bits = EightBits::kKeepsScale,
       .infer = infer_reshape,
       .backward = backward_reshape,
       .cost = cost_reshape}};
}

}  // namespace mlx::graph
