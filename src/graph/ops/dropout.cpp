// Dropout (Srivastava et al. 2014) of elements, or of whole examples (stochastic depth, Huang et al. 2016). It scales
// in training and is absent in inference. Backward draws the same mask from the same stream.

#include "graph/rule.h"

namespace mlx::graph {
namespace {

using Ids = std::vector<ValueId>;

template <Op kOp>
Ids infer_dropout(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, kOp, inputs, name);
  rule.require_f32();
  rule.require(attrs.rate >= 0 && attrs.rate < 1, "the rate must be at least 0 and less than 1");
  rule.require(!attrs.whole_example || rule.rank(0) >= 1, "an example is an index of the first dimension");
  return {rule.out({}, DType::kF32, rule.dims(0))};
}

Ids backward_dropout(Graph& graph, const Node& node, const Ids& gradients) {
  return graph.add(Op::kDropoutBackward, node.attrs, {gradients[0]}, node.name + ".backward");
}

}  // namespace

std::vector<OpDef> dropout_ops() {
  return {
      {.op = Op::kDropout,
       .text = {"x -> y", "rate stream whole_example",
                "Dropout in training: each element is 0 with probability rate, else divided by 1 - rate. "
                "whole_example draws once for each index of the first dimension (stochastic depth); stream keys "
                "the random numbers."},
       .random = true,
       .infer = infer_dropout<Op::kDropout>,
       .backward = backward_dropout,
       .cost = per_output<2>},
      {.op = Op::kDropoutBackward,
       .text = {"dy -> dx", "rate stream whole_example", "Gradient of dropout, with the same mask drawn again."},
       .infer = infer_dropout<Op::kDropoutBackward>,
       .cost = per_output<2>},
  };
}

}  // namespace mlx::graph
