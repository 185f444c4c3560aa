// Shared by the shape rules: errors that name the node and the shapes, names of outputs, costs.

#include "graph/rule.h"

#include <algorithm>
#include <span>
#include <utility>

namespace mlx::graph {

Rule::Rule(Graph& graph, Op op, const std::vector<ValueId>& inputs, const std::string& name)
    : graph_(graph), op_(op), inputs_(inputs), name_(name) {
  const OpDef& def = op_def(op);
  for (const ValueId id : inputs) {
    if (id != kNone && (id < 0 || static_cast<std::size_t>(id) >= graph.values.size())) {
      fail(ErrorKind::kUsage, "{} ({}): input {} does not exist", name, kernels::name_of(op), id);
    }
  }
  if (inputs.size() > static_cast<std::size_t>(def.max_inputs)) {
    refuse(fmt::format("{} inputs, but it takes at most {}", inputs.size(), def.max_inputs));
  }
  for (int i = 0; i < def.required_inputs; ++i) {
    if (!has(static_cast<std::size_t>(i))) refuse(fmt::format("input {} is missing", i));
  }
}

std::int64_t Rule::size(std::size_t input, int axis) const {
  const Dims& of = graph_.value(inputs_[input]).dims;
  const std::int64_t at = axis < 0 ? static_cast<std::int64_t>(of.size()) + axis : axis;
  if (at < 0 || at >= static_cast<std::int64_t>(of.size()))
    refuse(fmt::format("input {} has too few dimensions", input));
  const Dim dim = of[static_cast<std::size_t>(at)];
  if (dim.symbolic() || dim.size < 1)
    refuse(fmt::format("dimension {} of input {} must be a fixed size of at least 1", at, input));
  return dim.size;
}

void Rule::refuse(std::string_view what) const {
  constexpr std::size_t kShown = 8;
  std::string shapes;
  for (const ValueId id : std::span(inputs_).first(std::min(inputs_.size(), kShown))) {
    if (!shapes.empty()) shapes += ", ";
    shapes += id == kNone ? std::string("none")
                          : kernels::name_of(graph_.value(id).dtype) + to_text(graph_, graph_.value(id).dims);
  }
  if (inputs_.size() > kShown) shapes += fmt::format(" and {} more", inputs_.size() - kShown);
  const std::string at = name_.empty() ? kernels::name_of(op_) : fmt::format("{} ({})", name_, kernels::name_of(op_));
  fail(ErrorKind::kUsage, "{}: {}; inputs {}", at, what, shapes);
}

void Rule::require_dtype(std::size_t input, DType expected) const {
  if (dtype(input) != expected) refuse(fmt::format("input {} must be {}", input, kernels::name_of(expected)));
}

void Rule::require_f32() const {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (has(i)) require_dtype(i, DType::kF32);
  }
}

void Rule::require_real(std::size_t input) const {
  if (!kernels::is_half(dtype(input)) && dtype(input) != DType::kF32)
    refuse(fmt::format("input {} must be f32, bf16 or f16", input));
}

void Rule::require_rank(std::size_t input, std::size_t expected) const {
  if (rank(input) != expected) refuse(fmt::format("input {} must have {} dimensions", input, expected));
}

void Rule::require_shape(std::size_t input, const Dims& expected) const {
  if (dims(input) != expected) refuse(fmt::format("input {} must have the shape {}", input, to_text(graph_, expected)));
}

void Rule::require_written_in_place(std::size_t input) const {
  if (role(input) != Role::kParameter && role(input) != Role::kState) {
    refuse(fmt::format("input {} is written and must be a parameter or a state", input));
  }
}

ValueId Rule::out(std::string_view suffix, DType type, Dims shape) {
  std::string name;
  if (!name_.empty()) {  // validate() wants only shapes
    name = suffix.empty() ? name_ : fmt::format("{}.{}", name_, suffix);
    for (int copy = 2; graph_.find(name) != kNone; ++copy) {
      name = suffix.empty() ? fmt::format("{}_{}", name_, copy) : fmt::format("{}.{}_{}", name_, suffix, copy);
    }
  }
  graph_.values.push_back({std::move(name), type, std::move(shape), Role::kActivation});
  return static_cast<ValueId>(graph_.values.size() - 1);
}

Dims without_last(Dims dims) {
  if (!dims.empty()) dims.pop_back();
  return dims;
}

Dims with_last(Dims dims, Dim last) {
  if (!dims.empty()) dims.back() = last;
  return dims;
}

Cost with_bytes(double flops, std::span<const kernels::Shape> inputs, std::span<const kernels::Shape> outputs) {
  Cost cost{flops, 0};
  for (const auto& shapes : {inputs, outputs}) {
    for (const kernels::Shape& shape : shapes) {
      if (shape.rank >= 0) cost.bytes += static_cast<double>(shape.bytes());
    }
  }
  return cost;
}

ValueId before_activation(Graph& graph, const Node& node, ValueId gradient) {
  CHECK(node.attrs.activation != Activation::kGelu);
  if (node.attrs.activation == Activation::kNone) return gradient;
  const bool relu = node.attrs.activation == Activation::kRelu;
  return graph.add(relu ? Op::kReluBackward : Op::kRelu6Backward, {}, {node.outputs[0], gradient},
                   node.name + (relu ? ".backward_relu" : ".backward_relu6"))[0];
}

std::vector<std::size_t> axes_of(const Rule& rule, const Attrs& attrs, std::size_t rank) {
  std::vector<std::size_t> axes;
  for (std::size_t i = 0; i < static_cast<std::size_t>(attrs.axes.count); ++i) {
    const std::int64_t axis = attrs.axes.at[i];
    const bool is_dim = axis >= 0 && axis < static_cast<std::int64_t>(rank);
    rule.require(is_dim && std::ranges::find(axes, static_cast<std::size_t>(axis)) == axes.end(),
                 "axes must be dimensions, each once");
    axes.push_back(static_cast<std::size_t>(axis));
  }
  return axes;
}

Dims broadcast(const Rule& rule, const Dims& a, const Dims& b) {
  Dims y(std::max(a.size(), b.size()), Dim::of(1));
  for (std::size_t i = 0; i < y.size(); ++i) {  // starting with the last one
    const Dim of_a = i < a.size() ? a[a.size() - 1 - i] : Dim::of(1);
    const Dim of_b = i < b.size() ? b[b.size() - 1 - i] : Dim::of(1);
    rule.require(of_a == of_b || of_a == Dim::of(1) || of_b == Dim::of(1), "the dimensions must be equal or 1");
    y[y.size() - 1 - i] = of_a == Dim::of(1) ? of_b : of_a;
  }
  return y;
}

ValueId sum_to(Graph& graph, ValueId gradient, const Dims& dims, const std::string& name) {
  const Dims wide = graph.value(gradient).dims;
  if (wide == dims) return gradient;
  Attrs attrs;
  attrs.keep_dims = true;
  for (std::size_t i = 0; i < wide.size(); ++i) {
    const std::size_t added = wide.size() - dims.size();
    const bool repeated = i < added || (dims[i - added] == Dim::of(1) && wide[i] != Dim::of(1));
    if (repeated) attrs.axes.at[static_cast<std::size_t>(attrs.axes.count++)] = static_cast<std::int64_t>(i);
  }
  const ValueId sum = graph.add(Op::kReduce, attrs, {gradient}, name)[0];
  if (graph.value(sum).dims == dims) return sum;
  return graph.add_shaped(Op::kReshape, {}, {sum}, dims, name + "_shape")[0];
}

StartValue start_of_scale(const Node&, std::size_t input, const kernels::Shape&) {
  return {input == 1 ? StartValue::kOne : StartValue::kZero};
}

void require_given(const Rule& rule, const Dims* output) {
  rule.require(output != nullptr && output->size() <= kernels::kMaxRank, "the output's shape must be given");
}

}  // namespace mlx::graph
