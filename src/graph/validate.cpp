// Validates a graph. A graph from a file may be hostile: every index is checked before it is used, and every node is
// inferred again by its own shape rule, so that a graph is valid exactly if the rules allow it.

#include <unordered_set>

#include "base/error.h"
#include "graph/graph.h"
#include "graph/op_def.h"

namespace mlx::graph {
namespace {

constexpr std::size_t kMaxValues = 1 << 20;

bool exists(const Graph& graph, ValueId id) {
  return id >= 0 && static_cast<std::size_t>(id) < graph.values.size();
}

// Checks that a tensor with these fixed sizes is possible. Symbolic sizes are checked when they are bound.
void check_size(const Value& value) {
  Value fixed{value.name, value.dtype, value.dims};
  for (Dim& dim : fixed.dims)
    if (dim.symbolic()) dim = Dim::of(1);
  concrete(fixed, {});
}

void check_values(const Graph& graph) {
  if (graph.values.size() > kMaxValues || graph.nodes.size() > kMaxValues) {
    fail(ErrorKind::kCorrupt, "{} values and {} nodes are too many", graph.values.size(), graph.nodes.size());
  }
  std::unordered_set<std::string_view> names;
  for (const std::string& symbol : graph.symbols) {
    if (symbol.empty() || !names.insert(symbol).second) {
      fail(ErrorKind::kCorrupt, "the symbol '{}' is empty or occurs twice", symbol);
    }
  }
  names.clear();
  for (const Value& value : graph.values) {
    if (value.name.empty() || !names.insert(value.name).second) {
      fail(ErrorKind::kCorrupt, "the value name '{}' is empty or occurs twice", value.name);
    }
    if (value.dims.size() > kernels::kMaxRank) {
      fail(ErrorKind::kCorrupt, "'{}' has {} dimensions", value.name, value.dims.size());
    }
    for (const Dim& dim : value.dims) {
      if (dim.last_symbol() >= static_cast<int>(graph.symbols.size()))
        fail(ErrorKind::kCorrupt, "'{}' has a size with the unknown symbol {}", value.name, dim.last_symbol());
      if (value.role != Role::kActivation && dim.symbolic() && dim.symbol() < 0)
        fail(ErrorKind::kCorrupt, "'{}' must have sizes that are numbers or symbols", value.name);
    }
    check_size(value);
  }
}

// Checks that the node's outputs are what its shape rule says: new values of that shape and dtype, or the inputs
// themselves.
void check_outputs(Graph& scratch, const Graph& graph, const Node& node, std::vector<char>& written) {
  const OpDef& def = op_def(node.op);
  const bool first = !node.outputs.empty() && exists(graph, node.outputs[0]);
  const std::vector<ValueId> expected =
      def.infer(scratch, node.attrs, node.inputs, first ? &graph.value(node.outputs[0]).dims : nullptr, {});
  if (expected.size() != node.outputs.size()) {
    fail(ErrorKind::kCorrupt, "{} outputs instead of {}", node.outputs.size(), expected.size());
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const ValueId got = node.outputs[i];
    if (expected[i] < static_cast<ValueId>(graph.values.size())) {  // in place
      if (got != expected[i]) fail(ErrorKind::kCorrupt, "output {} must be the input that is written in place", i);
      continue;
    }
    if (got == kNone && (def.optional_outputs >> i & 1u) != 0) continue;
    if (!exists(graph, got)) fail(ErrorKind::kCorrupt, "output {} does not exist", i);
    const Value& value = graph.value(got);
    const Value& inferred = scratch.value(expected[i]);
    if (value.dtype != inferred.dtype || value.dims != inferred.dims) {
      fail(ErrorKind::kCorrupt, "output '{}' is {}{}, but the operation makes {}{}", value.name,
           kernels::name_of(value.dtype), to_text(graph, value.dims), kernels::name_of(inferred.dtype),
           to_text(graph, inferred.dims));
    }
    if (value.role != Role::kActivation || written[static_cast<std::size_t>(got)] != 0) {
      fail(ErrorKind::kCorrupt, "output '{}' is written by another node or is not an activation", value.name);
    }
    written[static_cast<std::size_t>(got)] = 1;
  }
  scratch.values.resize(graph.values.size());
}

void check_node(Graph& scratch, const Graph& graph, const Node& node, std::vector<char>& written) {
  if (static_cast<std::size_t>(node.op) >= static_cast<std::size_t>(Op::kCount)) {
    fail(ErrorKind::kCorrupt, "'{}' has the unknown operation {}", node.name, static_cast<int>(node.op));
  }
  try {
    for (const ValueId id : node.inputs) {
      if (id == kNone) continue;
      if (!exists(graph, id)) fail(ErrorKind::kCorrupt, "input {} does not exist", id);
      const Value& value = graph.value(id);
      if (value.role == Role::kActivation && written[static_cast<std::size_t>(id)] == 0) {
        fail(ErrorKind::kCorrupt, "input '{}' is used before any node has written it", value.name);
      }
    }
    check_outputs(scratch, graph, node, written);
  } catch (const Error& error) {
    fail(ErrorKind::kCorrupt, "node '{}': {}", node.name, error.message);
  }
}

}  // namespace

void validate(const Graph& graph) {
  try {
    check_values(graph);
  } catch (const Error& error) {  // from concrete(): in a file this is corruption
    fail(ErrorKind::kCorrupt, "{}", error.message);
  }
  Graph scratch;
  scratch.symbols = graph.symbols;
  scratch.values = graph.values;
  std::vector<char> written(graph.values.size(), 0);
  for (const Node& node : graph.nodes) check_node(scratch, graph, node, written);

  std::vector<char> listed(graph.values.size(), 0);
  for (const ValueId id : graph.inputs) {
    if (!exists(graph, id) || graph.value(id).role != Role::kInput || listed[static_cast<std::size_t>(id)]++ != 0) {
      fail(ErrorKind::kCorrupt, "input {} is not an input value or is listed twice", id);
    }
  }
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[i].role == Role::kInput && listed[i] == 0) {
      fail(ErrorKind::kCorrupt, "'{}' is an input that is not listed", graph.values[i].name);
    }
  }
  for (const ValueId id : graph.outputs) {
    if (!exists(graph, id)) fail(ErrorKind::kCorrupt, "output {} does not exist", id);
    const Value& value = graph.value(id);
    if (value.role == Role::kActivation && written[static_cast<std::size_t>(id)] == 0) {
      fail(ErrorKind::kCorrupt, "no node writes the output '{}'", value.name);
    }
  }
}

}  // namespace mlx::graph
