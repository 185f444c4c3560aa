// Losses, which compute their own gradients, and softmax.

#include "graph/rule.h"

namespace mlx::graph {
namespace {

using Ids = std::vector<ValueId>;

// Adds the gradient as an output, stored as attrs.output says, and checks its factor.
ValueId gradient_of(Rule& rule, const Attrs& attrs, const char* name) {
  if (rule.has(2)) {
    rule.require_dtype(2, DType::kF32);
    rule.require_rank(2, 1);
    rule.require(rule.size(2, 0) > 0, "the factor is missing");
  }
  return rule.out(name, stored_type(rule, attrs), rule.dims(0));
}

Ids infer_cross_entropy(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kSoftmaxCrossEntropy, inputs, name);
  rule.require_real(0);
  rule.require_dtype(1, DType::kS32);
  rule.size(0, -1);
  rule.require_shape(1, without_last(rule.dims(0)));
  rule.require(attrs.rate >= 0 && attrs.rate < 1, "label smoothing must be at least 0 and less than 1");
  const ValueId loss = rule.out({}, DType::kF32, {Dim::of(1)});
  const ValueId dlogits = gradient_of(rule, attrs, "dlogits");
  const ValueId correct = rule.out("correct", DType::kS32, {Dim::of(1)});
  return {loss, dlogits, correct, rule.out("counted", DType::kS32, {Dim::of(1)})};
}

template <Op kLoss>
Ids infer_target_loss(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  constexpr bool kRegression = kLoss == Op::kRegressionLoss;
  Rule rule(graph, kLoss, inputs, name);
  if (kRegression)
    rule.require_dtype(0, DType::kF32);
  else
    rule.require_real(0);
  rule.require_dtype(1, DType::kF32);
  rule.require(rule.rank(0) >= 1, "there must be at least one dimension");
  rule.require_shape(1, rule.dims(0));
  rule.require(attrs.rate >= 0 && attrs.rate < 1, "label smoothing must be at least 0 and less than 1");
  rule.require(attrs.delta >= 0, "delta must be at least 0");
  const ValueId loss = rule.out({}, DType::kF32, {Dim::of(1)});
  const ValueId gradient = gradient_of(rule, attrs, kRegression ? "dpredictions" : "dlogits");
  if (kRegression) return {loss, gradient};
  const ValueId correct = rule.out("correct", DType::kS32, {Dim::of(1)});
  return {loss, gradient, correct, rule.out("counted", DType::kS32, {Dim::of(1)})};
}

// The gradient of the loss with respect to itself is 1; differentiate() starts here and nowhere else.
Ids backward_loss(Graph&, const Node& node, const Ids&) {
  return {node.outputs[1], kNone};
}

Ids infer_softmax(Graph& graph, const Attrs&, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kSoftmax, inputs, name);
  rule.require_f32();
  rule.size(0, -1);
  return {rule.out({}, DType::kF32, rule.dims(0))};
}

}  // namespace

std::vector<OpDef> loss_ops() {
  return {
      {.op = Op::kSoftmaxCrossEntropy,
       .text = {"logits real[...,V], labels s32[...], (factor[...]) -> loss[1], (dlogits real[...,V]), (correct "
                "s32[1]), (counted s32[1])",
                "rate output",
                "Softmax cross-entropy: the mean over the labels from 0 to V-1; others are ignored. rate is the "
                "label smoothing."},
       .reads_half = 1u << 0,
       .stores_half = true,
       .half_output = 1,
       .half_if_throughout = true,
       .loss = true,
       .infer = infer_cross_entropy,
       .backward = backward_loss,
       .cost = per_input<12>},
      {.op = Op::kSoftCrossEntropy,
       .text = {"logits real[...,V], targets[...,V], (factor[...]) -> loss[1], (dlogits real[...,V]), (correct "
                "s32[1]), (counted s32[1])",
                "rate output",
                "Mean softmax cross-entropy against class probabilities. rate is the label smoothing; correct "
                "counts rows whose largest logit is at the largest probability."},
       .reads_half = 1u << 0,
       .stores_half = true,
       .half_output = 1,
       .half_if_throughout = true,
       .loss = true,
       .infer = infer_target_loss<Op::kSoftCrossEntropy>,
       .backward = backward_loss,
       .cost = per_input<12>},
      {.op = Op::kSoftmax,
       .text = {"logits[...,V] -> p[...,V]", "", "Softmax over the last dimension."},
       .infer = infer_softmax,
       .cost = per_output<10>},
  };
}

std::vector<OpDef> target_loss_ops() {
  return {
      {.op = Op::kBinaryCrossEntropy,
       .text = {"x real[...,V], targets[...,V], (factor[...]) -> loss[1], (dx real[...,V]), (correct s32[1]), "
                "(counted s32[1])",
                "rate output",
                "Mean binary cross-entropy of sigmoid(x) with targets from 0 to 1. rate is the label smoothing; "
                "correct counts x > 0 exactly where the target is above one half."},
       .reads_half = 1u << 0,
       .stores_half = true,
       .half_output = 1,
       .half_if_throughout = true,
       .loss = true,
       .infer = infer_target_loss<Op::kBinaryCrossEntropy>,
       .backward = backward_loss,
       .cost = per_input<12>},
      {.op = Op::kRegressionLoss,
       .text = {"x[...,V], targets[...,V], (factor[...]) -> loss[1], (dx real[...,V])", "delta output",
                "Mean squared error; with delta, Huber's loss (1964): half the square up to delta, then linear."},
       .stores_half = true,
       .half_output = 1,
       .half_if_throughout = true,
       .loss = true,
       .infer = infer_target_loss<Op::kRegressionLoss>,
       .backward = backward_loss,
       .cost = per_input<4>},
  };
}

}  // namespace mlx::graph
