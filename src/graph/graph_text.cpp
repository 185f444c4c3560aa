// A graph for people: one line a node.

#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "graph/op_def.h"

namespace mlx::graph {
namespace {

std::string short_count(double count) {
  if (count >= 1e9) return fmt::format("{:.2f} G", count / 1e9);
  if (count >= 1e6) return fmt::format("{:.2f} M", count / 1e6);
  if (count >= 1e3) return fmt::format("{:.1f} k", count / 1e3);
  return fmt::format("{:.0f}", count);
}

kernels::Shape shape_for_one(const Graph& graph, ValueId id, const std::vector<std::int64_t>& ones) {
  if (id != kNone) return concrete(graph.value(id), ones);
  kernels::Shape absent;
  absent.rank = -1;
  return absent;
}

struct Row {
  std::string name, op, shape, parameters, flops;
};

Row row_of(const Graph& graph, const Node& node, const std::vector<std::int64_t>& ones,
           std::unordered_set<ValueId>& counted, double& all_parameters, double& all_flops) {
  std::vector<kernels::Shape> inputs, outputs;
  double parameters = 0;
  for (const ValueId id : node.inputs) {
    inputs.push_back(shape_for_one(graph, id, ones));
    if (id != kNone && graph.value(id).role == Role::kParameter && counted.insert(id).second) {
      parameters += static_cast<double>(inputs.back().count());
    }
  }
  for (const ValueId id : node.outputs) outputs.push_back(shape_for_one(graph, id, ones));
  const double flops = cost_of(node, inputs, outputs).flops;
  all_parameters += parameters;
  all_flops += flops;
  std::string op = kernels::name_of(node.op);
  if (node.attrs.activation == Activation::kRelu) op += "+relu";
  if (node.attrs.activation == Activation::kGelu) op += "+gelu";
  const Value& first = graph.value(node.outputs.at(0));
  std::string shape = to_text(graph, first.dims);
  if (first.dtype != DType::kF32) shape = kernels::name_of(first.dtype) + shape;
  return {node.name, op, shape, parameters > 0 ? short_count(parameters) : "", flops > 0 ? short_count(flops) : ""};
}

}  // namespace

std::string to_text(const Graph& graph, const Dims& dims) {
  std::string text = "[";
  for (const Dim dim : dims) {
    if (text.size() > 1) text += ',';
    text += dim.symbolic() ? graph.symbols.at(static_cast<std::size_t>(dim.symbol)) : std::to_string(dim.size);
  }
  return text + "]";
}

std::string to_text(const Graph& graph) {
  const std::vector<std::int64_t> ones(graph.symbols.size(), 1);
  std::vector<Row> rows{{"node", "operation", "output", "parameters", "FLOP"}};
  std::unordered_set<ValueId> counted;
  double parameters = 0, flops = 0;
  for (const ValueId id : graph.inputs) {
    const Value& value = graph.value(id);
    rows.push_back({value.name, "input", to_text(graph, value.dims), "", ""});
  }
  for (const Node& node : graph.nodes) rows.push_back(row_of(graph, node, ones, counted, parameters, flops));
  rows.push_back({"total", "", "", short_count(parameters), short_count(flops)});

  std::size_t name = 0, op = 0, shape = 0;
  for (const Row& row : rows) {
    name = std::max(name, row.name.size());
    op = std::max(op, row.op.size());
    shape = std::max(shape, row.shape.size());
  }
  std::string text;
  for (const Row& row : rows) {
    text += fmt::format("{:<{}}  {:<{}}  {:<{}}  {:>10}  {:>9}\n", row.name, name, row.op, op, row.shape, shape,
                        row.parameters, row.flops);
  }
  return text;
}

}  // namespace mlx::graph
