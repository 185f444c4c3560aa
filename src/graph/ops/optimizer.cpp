// One step of an optimizer for one parameter, in place on the parameter and its state; and the preparation of its
// gradient.

#include "graph/rule.h"

namespace mlx::graph {
namespace {

using Ids = std::vector<ValueId>;

// Checks w, dw, `states` of w's shape, lr[1], (factor[1]).
void require_update(const Rule& rule, const Attrs& attrs, std::size_t states) {
  rule.require_f32();
  for (std::size_t i = 1; i < 2 + states; ++i) {
    if (rule.has(i)) rule.require_shape(i, rule.dims(0));
  }
  rule.require_vector(2 + states, 1);
  rule.require_written_in_place(0);
  for (std::size_t i = 2; i < 2 + states; ++i) {
    if (rule.has(i)) rule.require_written_in_place(i);
  }
  rule.require(attrs.weight_decay >= 0, "weight decay must not be negative");
  if (rule.has(3 + states)) rule.require_vector(3 + states, 1);
}

Ids infer_sgd(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  const Rule rule(graph, Op::kSgd, inputs, name);
  rule.require(rule.has(3), "input 3 is missing");
  rule.require(rule.has(2) || attrs.momentum == 0, "momentum needs its velocity, input 2");
  require_update(rule, attrs, 1);
  rule.require(attrs.momentum >= 0 && attrs.momentum <= 1, "momentum must be between 0 and 1");
  return {inputs[0], inputs[2]};
}

void require_betas(const Rule& rule, const Attrs& attrs) {
  rule.require(attrs.beta1 >= 0 && attrs.beta1 < 1 && attrs.beta2 >= 0 && attrs.beta2 < 1 && attrs.epsilon >= 0,
               "beta1 and beta2 must be at least 0 and less than 1, epsilon not negative");
}

Ids infer_adamw(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  const Rule rule(graph, Op::kAdamW, inputs, name);
  require_update(rule, attrs, 2);
  require_betas(rule, attrs);
  return {inputs[0], inputs[2], inputs[3]};
}

Ids infer_lion(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  const Rule rule(graph, Op::kLion, inputs, name);
  require_update(rule, attrs, 1);
  require_betas(rule, attrs);
  return {inputs[0], inputs[2]};
}

Ids infer_muon_direction(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kMuonDirection, inputs, name);
  rule.require_f32();
  rule.require_shape(1, rule.dims(0));
  rule.require_written_in_place(1);
  rule.require(attrs.momentum >= 0 && attrs.momentum <= 1, "momentum must be between 0 and 1");
  if (rule.has(2)) rule.require_vector(2, 1);
  const ValueId velocity = inputs[1];
  return {velocity, rule.out({}, DType::kF32, rule.dims(0))};
}

Ids infer_accumulate(Graph& graph, const Attrs&, const Ids& inputs, const Dims*, const std::string& name) {
  const Rule rule(graph, Op::kAccumulate, inputs, name);
  rule.require_f32();
  rule.require_shape(1, rule.dims(0));
  rule.require_vector(2, 2);
  rule.require_written_in_place(0);
  return {inputs[0]};
}

Ids infer_norm(Graph& graph, const Attrs&, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kNorm, inputs, name);
  rule.require_f32();
  if (rule.has(1)) rule.require_vector(1, 1);
  return {rule.out({}, DType::kF32, {Dim::of(1)})};
}

Ids infer_gradient_scale(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kGradientScale, inputs, name);
  rule.require_f32();
  rule.require_vector(0, 1);
  rule.require(attrs.clip >= 0, "clip must be at least 0");
  const auto one = [&](const char* what) { return rule.out(what, DType::kF32, {Dim::of(1)}); };
  const ValueId factor = one(""), norm = one("norm"), taken = one("taken");
  if (!rule.has(1)) return {factor, norm, taken};
  rule.require_vector(1, 2);
  rule.require_written_in_place(1);
  return {factor, norm, taken, inputs[1]};
}

}  // namespace

std::vector<OpDef> optimizer_ops() {
  return {
      {.op = Op::kSgd,
       .text = {"w, dw, (velocity), lr[1], (factor[1]) -> w, velocity", "momentum weight_decay nesterov",
                "Stochastic gradient descent, with a velocity if there is momentum."},
       .infer = infer_sgd,
       .cost = per_output<6>},
      {.op = Op::kAdamW,
       .text = {"w, dw, m, v, lr[1], (factor[1]) -> w, m, v", "beta1 beta2 epsilon weight_decay",
                "AdamW (Loshchilov & Hutter 2019), with bias correction."},
       .infer = infer_adamw,
       .cost = per_output<14>},
      {.op = Op::kLion,
       .text = {"w, dw, m, lr[1], (factor[1]) -> w, m", "beta1 beta2 weight_decay", "Lion (Chen et al. 2023)."},
       .infer = infer_lion,
       .cost = per_output<9>},
  };
}

std::vector<OpDef> gradients_ops() {
  return {
      {.op = Op::kMuonDirection,
       .text = {"dw, velocity, (factor[1]) -> velocity, x", "momentum nesterov",
                "The first part of Muon (Jordan et al. 2024): x is the momentum of dw, divided by its norm."},
       .infer = infer_muon_direction,
       .cost = per_output<7>},
      {.op = Op::kAccumulate,
       .text = {"sum, x, factors[2] -> sum", "",
                "sum = factors[0] sum + factors[1] x; sum is not read if factors[0] is 0."},
       .infer = infer_accumulate,
       .cost = per_output<3>},
      {.op = Op::kNorm,
       .text = {"x, (before[1]) -> n[1]", "", "n = sqrt(before^2 + sum of x^2)."},
       .infer = infer_norm,
       .cost = per_input<2>},
  };
}

std::vector<OpDef> gradient_scale_ops() {
  return {
      {.op = Op::kGradientScale,
       .text = {"norm[1], (loss_scale[2]) -> factor[1], norm[1], (taken[1]), loss_scale[2]", "clip",
                "The factor for gradients of this norm: min(1, clip / norm), divided by the loss scale; clip 0 is "
                "no limit. If a scaled norm is not finite, factor and taken are NaN and the step is skipped."},
       .optional_outputs = 1u << 2,
       .infer = infer_gradient_scale,
       .cost = per_output<4>},
  };
}

}  // namespace mlx::graph
