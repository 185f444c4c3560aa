// Builds graphs: values, nodes with inferred shapes, concrete sizes.

#include "graph/graph.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "graph/op_def.h"

namespace mlx::graph {
namespace {

ValueId add_value(Graph& graph, std::string name, DType dtype, Dims dims, Role role) {
  if (name.empty()) fail(ErrorKind::kUsage, "a value needs a name");
  if (graph.find(name) != kNone) fail(ErrorKind::kUsage, "there are two values named '{}'", name);
  if (dims.size() > kernels::kMaxRank) {
    fail(ErrorKind::kUsage, "'{}' has {} dimensions; at most {} are possible", name, dims.size(), kernels::kMaxRank);
  }
  for (const Dim& dim : dims) {
    if (!dim.symbolic() && dim.size < 0)
      fail(ErrorKind::kUsage, "'{}' has the shape {}; no size may be negative", name, to_text(graph, dims));
    if (dim.symbolic() && dim.symbol() < 0)
      fail(ErrorKind::kUsage, "'{}' has the shape {}; its sizes must be numbers or symbols", name,
           to_text(graph, dims));
  }
  graph.values.push_back({std::move(name), dtype, std::move(dims), role});
  return static_cast<ValueId>(graph.values.size() - 1);
}

std::vector<ValueId> append(Graph& graph, Op op, const Attrs& attrs, std::vector<ValueId> inputs, const Dims* output,
                            std::string name) {
  if (name.empty()) name = fmt::format("{}_{}", kernels::name_of(op), graph.nodes.size() + 1);
  std::vector<ValueId> outputs = op_def(op).infer(graph, attrs, inputs, output, name);
  graph.nodes.push_back({op, attrs, std::move(inputs), outputs, std::move(name)});
  return outputs;
}

}  // namespace

int Graph::symbol(std::string_view name) {
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    if (symbols[i] == name) return static_cast<int>(i);
  }
  symbols.emplace_back(name);
  return static_cast<int>(symbols.size() - 1);
}

ValueId Graph::input(std::string name, DType dtype, Dims dims) {
  const ValueId id = add_value(*this, std::move(name), dtype, std::move(dims), Role::kInput);
  inputs.push_back(id);
  return id;
}

ValueId Graph::parameter(std::string name, Dims dims, DType dtype) {
  return add_value(*this, std::move(name), dtype, std::move(dims), Role::kParameter);
}

ValueId Graph::state(std::string name, Dims dims, DType dtype) {
  return add_value(*this, std::move(name), dtype, std::move(dims), Role::kState);
}

ValueId Graph::constant(std::string name, Dims dims, DType dtype) {
  return add_value(*this, std::move(name), dtype, std::move(dims), Role::kConstant);
}

std::vector<ValueId> Graph::add(Op op, const Attrs& attrs, std::vector<ValueId> node_inputs, std::string name) {
  return append(*this, op, attrs, std::move(node_inputs), nullptr, std::move(name));
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): dims come by value in all that adds to a graph
std::vector<ValueId> Graph::add_shaped(Op op, const Attrs& attrs, std::vector<ValueId> node_inputs, Dims output,
                                       std::string name) {
  return append(*this, op, attrs, std::move(node_inputs), &output, std::move(name));
}

ValueId Graph::find(std::string_view name) const {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].name == name) return static_cast<ValueId>(i);
  }
  return kNone;
}

kernels::Shape concrete(const Value& value, const std::vector<std::int64_t>& symbol_sizes) {
  constexpr std::int64_t kMaxBytes = std::int64_t{1} << 46;  // beyond any machine, and far from overflow
  kernels::Shape shape;
  shape.dtype = value.dtype;
  shape.rank = static_cast<int>(value.dims.size());
  auto bytes = static_cast<std::int64_t>(kernels::size_of(value.dtype));  // as if every size were at least 1
  for (std::size_t i = 0; i < value.dims.size(); ++i) {
    const std::int64_t size = value.dims[i].bound(symbol_sizes);
    if (size < 0) fail(ErrorKind::kUsage, "'{}': dimension {} is negative, {}", value.name, i, size);
    if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(size, 1), &bytes) || bytes > kMaxBytes)
      fail(ErrorKind::kUsage, "'{}': dimension {} of size {} makes it too large", value.name, i, size);
    shape.dims[i] = size;
  }
  return shape;
}

}  // namespace mlx::graph
