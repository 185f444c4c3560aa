// Gather: selects elements along a dimension, attrs.axis, by indices. Indices have no gradient.

#include "graph/rule.h"

namespace mlx::graph {
namespace {

using Ids = std::vector<ValueId>;

void require_indices(const Rule& rule, std::size_t input) {
  rule.require(rule.dtype(input) == DType::kS32 || rule.dtype(input) == DType::kI64,
               fmt::format("input {} must be s32 or i64", input));
}

Dims gathered(const Rule& rule, const Attrs& attrs, const Dims& source, const Dims& indices) {
  rule.require(attrs.axis >= 0 && attrs.axis < static_cast<std::int64_t>(source.size()), "axis must be a dimension");
  rule.require(source.size() - 1 + indices.size() <= kernels::kMaxRank, "the output has too many dimensions");
  const auto axis = source.begin() + attrs.axis;
  Dims y(source.begin(), axis);
  y.insert(y.end(), indices.begin(), indices.end());
  y.insert(y.end(), axis + 1, source.end());
  return y;
}

Ids infer_gather(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kGather, inputs, name);
  require_indices(rule, 1);
  return {rule.out({}, rule.dtype(0), gathered(rule, attrs, rule.dims(0), rule.dims(1)))};
}

Ids infer_gather_backward(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims* given,
                          const std::string& name) {
  Rule rule(graph, Op::kGatherBackward, inputs, name);
  require_indices(rule, 0);
  rule.require_dtype(1, DType::kF32);
  require_given(rule, given);
  rule.require_shape(1, gathered(rule, attrs, *given, rule.dims(0)));
  return {rule.out({}, DType::kF32, *given)};
}

Ids backward_gather(Graph& graph, const Node& node, const Ids& gradients) {
  const Dims x = graph.value(node.inputs[0]).dims;
  const Ids dx =
      graph.add_shaped(Op::kGatherBackward, node.attrs, {node.inputs[1], gradients[0]}, x, node.name + ".backward");
  return {dx[0], kNone};
}

// Only elements that are read or written are moved, not the whole source.
Cost cost_gather(const Node&, std::span<const kernels::Shape>, std::span<const kernels::Shape> outputs) {
  return {0, 2.0 * static_cast<double>(outputs[0].bytes())};
}

}  // namespace

std::vector<OpDef> gather_ops() {
  return {
      {.op = Op::kGather,
       .text = {"x any[A...,V,B...], indices s32|i64[...] -> y any[A...,...,B...]", "axis",
                "Selects along axis, which has V elements. A negative index counts from the end. An index outside "
                "-V to V-1 gives zeros and has no gradient; a constant one is refused."},
       .infer = infer_gather,
       .backward = backward_gather,
       .cost = cost_gather,
       .start = start_of_table<0>},
      {.op = Op::kGatherBackward,
       .text = {"indices s32|i64[...], dy[A...,...,B...] -> dx[A...,V,B...]", "axis", "Gradient of gather."},
       .infer = infer_gather_backward,
       .cost = per_output<1>},
  };
}

}  // namespace mlx::graph
