// Optimizers as nodes. Only matrices have weight decay.

#include "graph/passes/optimizers.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/ranges.h>

#include "base/error.h"
#include "graph/passes/rewrite.h"

namespace mlx::graph {
namespace {

struct Target {
  std::string name;
  Dims dims;
  Attrs attrs;  // with weight decay
};

Target target_of(const Update& update) {
  const Value& value = update.graph.value(update.parameter);
  Target target{value.name, value.dims, {}};
  target.attrs.weight_decay = value.dims.size() > 1 ? update.spec.weight_decay : 0.0f;
  return target;
}

// Appends the update node itself: parameter, gradient, states, learning rate, and the factor of the gradient.
void append(const Update& u, Op op, const Target& target, ValueId gradient, const std::vector<ValueId>& states,
            ValueId factor) {
  std::vector<ValueId> inputs{u.parameter, gradient};
  inputs.insert(inputs.end(), states.begin(), states.end());
  inputs.push_back(u.learning_rate);
  if (factor != kNone) inputs.push_back(factor);
  u.graph.add(op, target.attrs, std::move(inputs), target.name + ".update");
}

void add_sgd(const Update& u) {
  Target t = target_of(u);
  t.attrs.momentum = u.spec.momentum;
  t.attrs.nesterov = u.spec.nesterov;
  append(u, Op::kSgd, t, u.gradient, {u.graph.state(t.name + ".velocity", t.dims)}, u.factor);
}

void add_adamw(const Update& u) {
  Target t = target_of(u);
  t.attrs.beta1 = u.spec.beta1;
  t.attrs.beta2 = u.spec.beta2;
  t.attrs.epsilon = u.spec.epsilon;
  const ValueId m = u.graph.state(t.name + ".m", t.dims), v = u.graph.state(t.name + ".v", t.dims);
  append(u, Op::kAdamW, t, u.gradient, {m, v}, u.factor);
}

void add_lion(const Update& u) {
  Target t = target_of(u);
  t.attrs.beta1 = u.spec.beta1;
  t.attrs.beta2 = u.spec.beta2;
  append(u, Op::kLion, t, u.gradient, {u.graph.state(t.name + ".m", t.dims)}, u.factor);
}

// Casts a factor of a product to the type that the product takes.
ValueId factor_of(Graph& graph, ValueId x, DType type) {
  return type == DType::kF32 ? x : cast_to(graph, x, type);
}

// Five Newton-Schulz iterations X ← aX + (bA + cA²)X, A = XXᵀ, bring the singular values of X near 1. A is computed
// over the shorter side: for a tall X it is X ← aX + X(bA + cA²) with A = XᵀX. The result is multiplied by `scale`.
ValueId orthogonalised(Graph& graph, ValueId x, bool wide, float scale, DType factors, const std::string& name) {
  constexpr int kIterations = 5;
  constexpr float kA = 3.4445f, kB = -4.7750f, kC = 2.0315f;  // Jordan et al. 2024
  for (int i = 1; i <= kIterations; ++i) {
    const auto named = [&](const char* what) { return fmt::format("{}.{}{}", name, what, i); };
    const ValueId x_factor = factor_of(graph, x, factors);
    const ValueId square = wide ? graph.add(Op::kLinear, {}, {x_factor, x}, named("square"))[0]
                                : graph.add(Op::kLinearBackwardWeights, {}, {x_factor, x_factor}, named("square"))[0];
    const ValueId square_factor = factor_of(graph, square, factors);
    const ValueId fourth = graph.add(Op::kLinear, {}, {square_factor, square}, named("fourth"))[0];
    Attrs polynomial;
    polynomial.scale_a = kB;
    polynomial.scale_b = kC;
    const ValueId factor = graph.add(Op::kScaledAdd, polynomial, {square, fourth}, named("factor"))[0];
    const ValueId change =
        wide ? graph.add(Op::kLinearBackwardData, {}, {factor_of(graph, factor, factors), x}, named("change"))[0]
             : graph.add(Op::kLinear, {}, {x_factor, factor}, named("change"))[0];
    Attrs sum;
    sum.scale_a = i == kIterations ? scale * kA : kA;
    sum.scale_b = i == kIterations ? scale : 1.0f;
    x = graph.add(Op::kScaledAdd, sum, {x, change}, named("direction"))[0];
  }
  return x;
}

// Updates hidden matrices (convolutions as O × rest) with Muon, everything else with AdamW. The direction is scaled to
// the size of AdamW's steps, 0.2 √(longer side) (Liu et al. 2025, "Muon is Scalable for LLM Training"), so that both
// use one learning rate and one weight decay. The step itself is plain descent along it.
void add_muon(const Update& u) {
  if (!u.hidden_matrix) return add_adamw(u);
  Graph& graph = u.graph;
  Target t = target_of(u);
  const std::int64_t rows = t.dims[0].size;
  std::int64_t columns = 1;
  for (std::size_t i = 1; i < t.dims.size(); ++i) columns *= t.dims[i].size;
  const Dims matrix{Dim::of(rows), Dim::of(columns)};
  ValueId gradient = u.gradient;
  if (t.dims != matrix) gradient = graph.add_shaped(Op::kReshape, {}, {gradient}, matrix, t.name + ".muon.matrix")[0];
  Attrs direction = t.attrs;
  direction.weight_decay = 0;
  direction.momentum = u.spec.momentum;
  direction.nesterov = u.spec.nesterov;
  std::vector<ValueId> inputs{gradient, graph.state(t.name + ".velocity", matrix)};
  if (u.factor != kNone) inputs.push_back(u.factor);
  ValueId x = graph.add(Op::kMuonDirection, direction, std::move(inputs), t.name + ".muon")[1];
  const float scale = 0.2f * std::sqrt(static_cast<float>(std::max(rows, columns)));
  x = orthogonalised(graph, x, rows <= columns, scale, u.factors, t.name + ".muon");
  if (t.dims != matrix) x = graph.add_shaped(Op::kReshape, {}, {x}, t.dims, t.name + ".muon.step")[0];
  t.attrs.momentum = 0;
  append(u, Op::kSgd, t, x, {kNone}, u.taken);
}

struct Optimizer {
  const char* name;
  void (*add)(const Update& update);
};
constexpr Optimizer kOptimizers[] = {
    {"sgd", add_sgd},
    {"adamw", add_adamw},
    {"lion", add_lion},
    {"muon", add_muon},
};

}  // namespace

void add_update(const Update& update) {
  for (const Optimizer& optimizer : kOptimizers) {
    if (update.spec.name == optimizer.name) return optimizer.add(update);
  }
  fail(ErrorKind::kUsage, "unknown optimizer '{}': it is one of {}", update.spec.name,
       fmt::join(optimizer_names(), ", "));
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const Optimizer& optimizer : kOptimizers) names.emplace_back(optimizer.name);
  return names;
}

std::vector<char> hidden_matrices(const Graph& forward) {
  std::vector<char> hidden(forward.values.size(), 0), other(forward.values.size(), 0);
  for (const Node& node : forward.nodes) {
    const bool layer = node.op == Op::kLinear || (node.op == Op::kConv2d && node.attrs.groups == 1);
    const bool head = std::ranges::find(forward.outputs, node.outputs[0]) != forward.outputs.end();
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kNone) continue;
      const auto id = static_cast<std::size_t>(node.inputs[i]);
      (layer && !head && i == 1 ? hidden : other)[id] = 1;
    }
  }
  for (std::size_t i = 0; i < hidden.size(); ++i) {
    if (other[i] != 0 || forward.values[i].role != Role::kParameter) hidden[i] = 0;
  }
  return hidden;
}

}  // namespace mlx::graph
