// Operations of the ranks that hold the parts of one model (passes/partition.h). Megatron's f and g (Shoeybi et al.
// 2019) are replicate and all_reduce: each is the other's gradient, because the loss is the same on all ranks and
// counts once.

#include "graph/rule.h"

namespace mlx::graph {
namespace {

using Ids = std::vector<ValueId>;

template <Op kOp>
Ids infer_same(Graph& graph, const Attrs&, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, kOp, inputs, name);
  rule.require_f32();
  return {rule.out({}, DType::kF32, rule.dims(0))};
}

Ids infer_all_gather(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kAllGather, inputs, name);
  constexpr std::int64_t kMostRanks = 1 << 20;
  rule.require_f32();
  rule.require(attrs.groups >= 1 && attrs.groups <= kMostRanks, "groups must be the number of ranks");
  Dims y = rule.dims(0);
  rule.require(!y.empty() && !y[0].symbolic(), "the first dimension must be a fixed size");
  y[0] = y[0] * Dim::of(attrs.groups);
  return {rule.out({}, DType::kF32, y)};
}

Ids backward_replicate(Graph& graph, const Node& node, const Ids& gradients) {
  return graph.add(Op::kAllReduce, {}, {gradients[0]}, node.name + ".backward");
}

Ids backward_all_reduce(Graph&, const Node&, const Ids& gradients) {
  return {gradients[0]};
}

Cost cost_replicate(const Node&, std::span<const kernels::Shape>, std::span<const kernels::Shape>) {
  return {};
}

}  // namespace

std::vector<OpDef> collective_ops() {
  return {
      {.op = Op::kReplicate,
       .text = {"x -> y", "",
                "x, which all ranks that hold parts of the model have; its gradient is the sum of theirs."},
       .infer = infer_same<Op::kReplicate>,
       .backward = backward_replicate,
       .cost = cost_replicate},
      {.op = Op::kAllReduce,
       .text = {"x -> y", "", "The sum of x over all ranks that hold parts of the model, added in their order."},
       .in_place = 1u << 0,
       .infer = infer_same<Op::kAllReduce>,
       .backward = backward_all_reduce,
       .cost = per_output<1>},
      {.op = Op::kAllGather,
       .text = {"x[N,...] -> y[RN,...]", "groups",
                "The x of all R = groups ranks that hold parts of the model, one after another."},
       .infer = infer_all_gather},
  };
}

}  // namespace mlx::graph
