// Fuses residual sums into the norms that read them, forward and backward. On a GPU both are memory-bound: the norm
// then does not read the sum again, and no separate gradient is written and read for the sum.

#include <algorithm>
#include <utility>

#include "graph/op_def.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace mlx::graph {
namespace {

bool is_norm(Op op) {
  return op == Op::kLayerNorm || op == Op::kRmsNorm;
}
bool is_norm_backward(Op op) {
  return op == Op::kLayerNormBackward || op == Op::kRmsNormBackward;
}

bool is_plain_sum(const Node& node) {
  return node.op == Op::kAdd && node.attrs.activation == Activation::kNone;
}

bool reads(const Node& node, ValueId value) {
  return std::ranges::find(node.inputs, value) != node.inputs.end();
}

// The first node after `at` that reads an output of node `at`; nodes.size() if there is none.
std::size_t first_reader(const Graph& graph, std::size_t at) {
  const std::vector<ValueId>& outputs = graph.nodes[at].outputs;
  const auto is_reader = [&](const Node& node) {
    return std::ranges::any_of(outputs, [&](ValueId id) { return id != kNone && reads(node, id); });
  };
  const auto behind = graph.nodes.begin() + static_cast<std::ptrdiff_t>(at) + 1;
  return static_cast<std::size_t>(std::find_if(behind, graph.nodes.end(), is_reader) - graph.nodes.begin());
}

// True if the value is written once. What outlives a step may be written in place between two reads.
bool stays(const Graph& graph, ValueId id) {
  return !outlives_step(graph.value(id).role);
}

// Moves the sum at `at` down into the norm that is its first reader. Of its two terms, the one that nothing else reads
// is the residual, which can be stored in half precision.
bool fuse_forward(Graph& graph, std::size_t at, const std::vector<int>& uses) {
  const Node sum = graph.nodes[at];
  if (!is_plain_sum(sum) || !std::ranges::all_of(sum.inputs, [&](ValueId id) { return stays(graph, id); }))
    return false;
  const std::size_t reader = first_reader(graph, at);
  if (reader == graph.nodes.size()) return false;
  Node& norm = graph.nodes[reader];
  if (!is_norm(norm.op) || adds(norm) || norm.inputs[0] != sum.outputs[0]) return false;
  const auto read_once = [&](ValueId id) { return uses[static_cast<std::size_t>(id)] == 1; };
  const std::size_t residual = read_once(sum.inputs[0]) && !read_once(sum.inputs[1]) ? 0 : 1;
  norm.inputs[0] = sum.inputs[1 - residual];
  norm.inputs.push_back(sum.inputs[residual]);
  norm.outputs.push_back(sum.outputs[0]);
  return true;
}

// Moves the gradient of a norm down to the sum at `at`, if only that reads it. Returns its old index; nodes.size() if
// there is none.
std::size_t fuse_backward(Graph& graph, std::size_t at, const std::vector<int>& uses) {
  const Node sum = graph.nodes[at];
  if (!is_plain_sum(sum)) return graph.nodes.size();
  for (const std::size_t k : {std::size_t{1}, std::size_t{0}}) {
    const ValueId dx = sum.inputs[k], other = sum.inputs[1 - k];
    const std::size_t from = producer(graph, dx);
    if (from == graph.nodes.size() || uses[static_cast<std::size_t>(dx)] != 1) continue;
    Node& gradient = graph.nodes[from];
    if (!is_norm_backward(gradient.op) || adds(gradient) || gradient.outputs[0] != dx) continue;
    if (first_reader(graph, from) != at || !stays(graph, gradient.inputs[0])) continue;
    gradient.inputs.push_back(other);
    gradient.outputs[0] = sum.outputs[0];
    graph.nodes[at] = std::exchange(gradient, {});
    return from;
  }
  return graph.nodes.size();
}

}  // namespace

void fuse_residuals(Graph& graph) {
  const std::vector<int> uses = count_uses(graph);
  std::vector<char> fused(graph.nodes.size(), 0);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (fuse_forward(graph, i, uses)) {
      graph.nodes[i] = {};
      fused[i] = 1;
      continue;
    }
    const std::size_t moved = fuse_backward(graph, i, uses);
    if (moved < graph.nodes.size()) fused[moved] = 1;
  }
  erase_nodes(graph, fused);
}

}  // namespace mlx::graph
