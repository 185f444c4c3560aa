// Another shape for the same elements in the same order; no work: the planner makes it a view.

#include <algorithm>

#include "graph/ops/rule.h"

namespace mlx::graph {
namespace {

using Ids = std::vector<ValueId>;

// The product of the fixed sizes and the sorted symbols: equal for two shapes exactly if they always hold as many
// elements.
struct Elements {
  std::int64_t fixed = 1;
  std::vector<int> symbols;
  bool operator==(const Elements&) const = default;
};

Elements elements(const Rule& rule, const Dims& dims) {
  Elements all;
  for (const Dim dim : dims) {
    if (dim.symbolic()) {
      all.symbols.push_back(dim.symbol);
    } else {
      rule.require(dim.size >= 1 && !__builtin_mul_overflow(all.fixed, dim.size, &all.fixed), "the shape is too large");
    }
  }
  std::ranges::sort(all.symbols);
  return all;
}

Ids infer(Graph& graph, const Attrs&, const Ids& inputs, const Dims* given, const std::string& name) {
  Rule rule(graph, Op::kReshape, inputs, name);
  rule.require(given != nullptr && given->size() <= kernels::kMaxRank, "the output's shape must be given");
  rule.require(elements(rule, rule.dims(0)) == elements(rule, *given),
               fmt::format("the shape {} holds another number of elements", to_text(graph, *given)));
  return {rule.out({}, rule.dtype(0), *given)};
}

Ids backward(Graph& graph, const Node& node, const Ids& gradients) {
  const Dims x = graph.value(node.inputs[0]).dims;
  return graph.add_shaped(Op::kReshape, {}, {gradients[0]}, x, node.name + ".backward");
}

Cost cost(const Node&, std::span<const kernels::Shape>, std::span<const kernels::Shape>) {
  return {};
}

}  // namespace

std::vector<OpDef> reshape_ops() {
  return {
      {.op = Op::kReshape, .required_inputs = 1, .max_inputs = 1, .infer = infer, .backward = backward, .cost = cost}};
}

}  // namespace mlx::graph
