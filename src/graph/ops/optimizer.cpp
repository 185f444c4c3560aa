// One step of an optimizer over one parameter, in place on the parameter and its state.

#include "graph/ops/rule.h"

namespace mlx::graph {
namespace {

using Ids = std::vector<ValueId>;

// w, dw, `states` of w's shape, lr[1].
void require_update(const Rule& rule, const Attrs& attrs, std::size_t states) {
  rule.require_f32();
  for (std::size_t i = 1; i < 2 + states; ++i) rule.require_shape(i, rule.dims(0));
  rule.require_vector(2 + states, 1);
  rule.require_written_in_place(0);
  for (std::size_t i = 2; i < 2 + states; ++i) rule.require_written_in_place(i);
  rule.require(attrs.weight_decay >= 0, "weight decay must not be negative");
}

Ids infer_sgd(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  const Rule rule(graph, Op::kSgd, inputs, name);
  require_update(rule, attrs, 1);
  rule.require(attrs.momentum >= 0 && attrs.momentum <= 1, "momentum must be between 0 and 1");
  return {inputs[0], inputs[2]};
}

Ids infer_adamw(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  const Rule rule(graph, Op::kAdamW, inputs, name);
  require_update(rule, attrs, 2);
  rule.require(attrs.beta1 >= 0 && attrs.beta1 < 1 && attrs.beta2 >= 0 && attrs.beta2 < 1 && attrs.epsilon >= 0,
               "beta1 and beta2 must be at least 0 and less than 1, epsilon not negative");
  return {inputs[0], inputs[2], inputs[3]};
}

}  // namespace

std::vector<OpDef> optimizer_ops() {
  return {
      {.op = Op::kSgd, .required_inputs = 4, .max_inputs = 4, .infer = infer_sgd, .cost = per_output<6>},
      {.op = Op::kAdamW, .required_inputs = 5, .max_inputs = 5, .infer = infer_adamw, .cost = per_output<14>},
  };
}

}  // namespace mlx::graph
