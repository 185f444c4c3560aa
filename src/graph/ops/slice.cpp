// Slice: along each of attrs.axes every step-th element from its start up to its end, as in NumPy: negative indices
// count from the end, and indices are clamped. For a symbolic dimension neither index is clamped, and the step is 1.

#include "graph/rule.h"
#include "kernels/loops.h"

namespace mlx::graph {
namespace {

using Ids = std::vector<ValueId>;

// The position of `index` in a symbolic dimension.
Dim index_in(const Dim& dim, std::int64_t index) {
  if (index == kernels::kToEnd) return dim;
  return index < 0 ? dim + Dim::of(index) : Dim::of(index);
}

Dim sliced(const Rule& rule, const Dim& dim, std::int64_t start, std::int64_t end, std::int64_t step) {
  rule.require(step >= 1 && step <= kernels::kToEnd, "steps must be at least 1");
  if (dim.symbolic()) {
    rule.require(step == 1, "a symbolic dimension is sliced with a step of 1 only");
    const Dim size = index_in(dim, end) - index_in(dim, start);
    rule.require(size.symbolic() || size.size >= 0, "a slice ends before it starts");
    return size;
  }
  const std::int64_t begin = kernels::slice_index(start, dim.size), after = kernels::slice_index(end, dim.size);
  return Dim::of(after > begin ? (after - begin + step - 1) / step : 0);
}

// The dims of the slice.
Dims part_of(const Rule& rule, const Attrs& attrs, Dims dims) {
  const std::vector<std::size_t> axes = axes_of(rule, attrs, dims.size());
  const auto given = [&](const kernels::IntList& list) { return list.count == attrs.axes.count; };
  rule.require(given(attrs.starts) && given(attrs.ends) && (attrs.steps.count == 0 || given(attrs.steps)),
               "there must be a start and an end for each of axes");
  for (std::size_t i = 0; i < axes.size(); ++i) {
    Dim& dim = dims[axes[i]];
    dim = sliced(rule, dim, attrs.starts.at[i], attrs.ends.at[i], attrs.steps.count > 0 ? attrs.steps.at[i] : 1);
  }
  return dims;
}

Ids infer_slice(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kSlice, inputs, name);
  return {rule.out({}, rule.dtype(0), part_of(rule, attrs, rule.dims(0)))};
}

Ids infer_slice_backward(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims* given,
                         const std::string& name) {
  Rule rule(graph, Op::kSliceBackward, inputs, name);
  rule.require_f32();
  require_given(rule, given);
  rule.require_shape(0, part_of(rule, attrs, *given));
  return {rule.out({}, DType::kF32, *given)};
}

Ids backward_slice(Graph& graph, const Node& node, const Ids& gradients) {
  const Dims x = graph.value(node.inputs[0]).dims;
  return graph.add_shaped(Op::kSliceBackward, node.attrs, {gradients[0]}, x, node.name + ".backward");
}

}  // namespace

std::vector<OpDef> slice_ops() {
  return {
      {.op = Op::kSlice,
       .text = {"x any -> y any", "axes starts ends steps",
                "Along each of axes every steps-th element from starts up to ends, as in NumPy: negative indices "
                "count from the end, indices are clamped, 1099511627776 as an end is the end, and no steps are "
                "steps of 1. A symbolic dimension takes steps of 1 only."},
       .eight_bits = EightBits::kKeepsScale,
       .infer = infer_slice,
       .backward = backward_slice,
       .cost = per_output<0>},
      {.op = Op::kSliceBackward,
       .text = {"dy -> dx", "axes starts ends steps", "Gradient of slice: zeros outside it."},
       .infer = infer_slice_backward,
       .cost = per_output<0>},
  };
}

}  // namespace mlx::graph
