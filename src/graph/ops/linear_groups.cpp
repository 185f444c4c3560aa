// Linear layers whose weights are integers in groups (kernels/op_list.h, kLinearGroups), and their gradient with
// respect to the input, for training of what stands before them. The weights themselves have none.

#include "graph/rule.h"

namespace mlx::graph {
namespace {

using Ids = std::vector<ValueId>;

// The inputs K of a layer whose weights and scales are inputs 1 and 2.
std::int64_t inputs_of_layer(const Rule& rule) {
  rule.require_dtype(0, DType::kF32);
  rule.require(rule.dtype(1) == DType::kU8 || rule.dtype(1) == DType::kS8, "the weights must be u8 or s8");
  rule.require_dtype(2, DType::kF16);
  rule.require_rank(1, 2), rule.require_rank(2, 2);
  constexpr std::int64_t kLeast = 32;
  const std::int64_t n = rule.size(1, 0), groups = rule.size(2, 0);
  const std::int64_t k = rule.size(1, 1) * (rule.dtype(1) == DType::kU8 ? 2 : 1);
  rule.require(k % groups == 0 && k / groups % kLeast == 0, "groups must have a multiple of 32 inputs");
  rule.require(rule.size(2, 1) == n, "the scales must have one for each output");
  return k;
}

Ids infer_linear_groups(Graph& graph, const Attrs&, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kLinearGroups, inputs, name);
  const std::int64_t k = inputs_of_layer(rule), n = rule.size(1, 0);
  rule.require(rule.rank(0) >= 1 && rule.dims(0).back() == Dim::of(k),
               "the input's last dimension is not that of the weights");
  if (rule.has(3)) {
    rule.require_dtype(3, DType::kF32);
    rule.require_vector(3, n);
  }
  return {rule.out({}, DType::kF32, with_last(rule.dims(0), Dim::of(n)))};
}

Ids infer_linear_groups_backward_data(Graph& graph, const Attrs&, const Ids& inputs, const Dims*,
                                      const std::string& name) {
  Rule rule(graph, Op::kLinearGroupsBackwardData, inputs, name);
  const std::int64_t k = inputs_of_layer(rule), n = rule.size(1, 0);
  rule.require(rule.rank(0) >= 1 && rule.dims(0).back() == Dim::of(n),
               "the last dimension of the result's gradient is not that of the layer");
  return {rule.out({}, DType::kF32, with_last(rule.dims(0), Dim::of(k)))};
}

// As if x was not rounded ("straight through", Bengio et al. 2013).
Ids backward_linear_groups(Graph& graph, const Node& node, const Ids& gradients) {
  const ValueId dx = graph.add(Op::kLinearGroupsBackwardData, {}, {gradients[0], node.inputs[1], node.inputs[2]},
                               node.name + ".backward")[0];
  Ids out(node.inputs.size(), kNone);
  out[0] = dx;
  return out;
}

Cost cost_linear_groups(const Node&, std::span<const kernels::Shape> inputs, std::span<const kernels::Shape> outputs) {
  return with_bytes(2.0 * count_of(outputs[0]) * static_cast<double>(inputs[0].dims[inputs[0].rank - 1]), inputs,
                    outputs);
}

Cost cost_linear_groups_backward_data(const Node&, std::span<const kernels::Shape> inputs,
                                      std::span<const kernels::Shape> outputs) {
  return with_bytes(2.0 * count_of(inputs[0]) * static_cast<double>(outputs[0].dims[outputs[0].rank - 1]), inputs,
                    outputs);
}

}  // namespace

std::vector<OpDef> linear_groups_ops() {
  return {
      {.op = Op::kLinearGroups,
       .text =
           {"x[...,K], w s8|u8[N,J], scales f16[G,N], (b[N]) -> y[...,N]", "",
            "Linear layer with integer weights in G groups of K / G inputs: y = x w^T + b. w in s8 has J = K; in u8 "
            "two weights of four bits a byte, the first in the lower half, 8 more than they are. A weight is its "
            "scale times its integer. x is rounded to s8 in the same groups, with max|x| / 127 as scale."},
       .layer = true,
       .infer = infer_linear_groups,
       .backward = backward_linear_groups,
       .cost = cost_linear_groups},
      {.op = Op::kLinearGroupsBackwardData,
       .text = {"dy[...,N], w s8|u8[N,J], scales f16[G,N] -> dx[...,K]", "",
                "Gradient of linear_groups with respect to x, as if x was not rounded: dx = dy w. The weights and the "
                "bias have none."},
       .infer = infer_linear_groups_backward_data,
       .cost = cost_linear_groups_backward_data},
  };
}

}  // namespace mlx::graph
