// Shape rules' common part: errors that name the node and the shapes, names of outputs, costs.

#include "graph/ops/rule.h"

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
  std::string shapes;
  for (const ValueId id : inputs_) {
    if (!shapes.empty()) shapes += ", ";
    shapes += id == kNone ? std::string("none")
                          : kernels::name_of(graph_.value(id).dtype) + to_text(graph_, graph_.value(id).dims);
  }
  fail(ErrorKind::kUsage, "{} ({}): {}; inputs {}", name_, kernels::name_of(op_), what, shapes);
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
  if (!name_.empty()) {  // validate() asks for shapes only
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

}  // namespace mlx::graph
