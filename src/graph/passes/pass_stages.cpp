// Finds where a graph can be cut, balances the stages, and takes them out of the graph.

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "base/error.h"
#include "graph/op_def.h"
#include "graph/passes/rewrite.h"
#include "graph/passes/stages.h"

namespace mlx::graph {
namespace {

bool is_activation_of(const Graph& graph, ValueId id) {
  return id != kNone && graph.value(id).role == Role::kActivation;
}

// The nodes whose sum is the only value that later nodes read of all computed so far.
std::vector<std::size_t> cuts_of(const Graph& graph) {
  std::vector<std::size_t> last_read(graph.values.size(), 0);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    for (const ValueId id : graph.nodes[i].inputs)
      if (is_activation_of(graph, id)) last_read[index(id)] = i;
  std::vector<int> goes_on(graph.nodes.size() + 1, 0);  // by node: changes of the number of values that later ones read
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const ValueId id : graph.nodes[i].outputs) {
      if (!is_activation_of(graph, id) || last_read[index(id)] <= i) continue;
      ++goes_on[i];
      --goes_on[last_read[index(id)]];
    }
  }
  std::vector<std::size_t> cuts;
  int alive = 0;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    alive += goes_on[i];
    const Node& node = graph.nodes[i];
    if (alive == 1 && node.op == Op::kAdd && last_read[index(node.outputs[0])] > i) cuts.push_back(i);
  }
  return cuts;
}

double flops_of(const Graph& graph, const Node& node, const std::vector<std::int64_t>& sizes) {
  kernels::Shape absent;
  absent.rank = -1;
  const auto shape = [&](ValueId id) { return id == kNone ? absent : concrete(graph.value(id), sizes); };
  std::vector<kernels::Shape> inputs, outputs;
  for (const ValueId id : node.inputs) inputs.push_back(shape(id));
  for (const ValueId id : node.outputs) outputs.push_back(shape(id));
  inputs.resize(std::max(inputs.size(), static_cast<std::size_t>(op_def(node.op).max_inputs)), absent);
  return cost_of(node, inputs, outputs).flops;
}

// Of the pieces between possible cuts, the first of each stage: the division whose most expensive stage costs least.
// `cost` of pieces.
std::vector<std::size_t> balanced(const std::vector<double>& cost, std::size_t stages) {
  const std::size_t pieces = cost.size();
  std::vector<double> before(pieces + 1, 0);
  for (std::size_t i = 0; i < pieces; ++i) before[i + 1] = before[i] + cost[i];
  // least[s][i]: of the first i pieces in s + 1 stages; from[s][i]: where the last of these begins.
  std::vector least(stages, std::vector(pieces + 1, std::numeric_limits<double>::infinity()));
  std::vector from(stages, std::vector(pieces + 1, std::size_t{0}));
  for (std::size_t i = 1; i <= pieces; ++i) least[0][i] = before[i];
  for (std::size_t s = 1; s < stages; ++s) {
    for (std::size_t i = s + 1; i <= pieces; ++i) {
      for (std::size_t k = s; k < i; ++k) {
        const double most = std::max(least[s - 1][k], before[i] - before[k]);
        if (most < least[s][i]) least[s][i] = most, from[s][i] = k;
      }
    }
  }
  std::vector<std::size_t> begins(stages, 0);
  for (std::size_t s = stages, end = pieces; s-- > 1; end = begins[s]) begins[s] = from[s][end];
  return begins;
}

// The node of the first stage that looks up rows of weights which the last one reads too; none if stages share none.
const Node* find_shared(const Graph& graph, const std::vector<std::size_t>& stage_of) {
  const Node* found = nullptr;
  std::map<ValueId, std::size_t> first_reader;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const ValueId id : graph.nodes[i].inputs) {
      if (id == kNone || graph.value(id).role != Role::kParameter) continue;
      const auto [first, is_new] = first_reader.try_emplace(id, i);
      const Node& node = graph.nodes[first->second];
      if (is_new || stage_of[i] == stage_of[first->second]) continue;
      const bool embeds = node.op == Op::kEmbedding && graph.value(node.inputs[0]).role == Role::kInput;
      if (!embeds || stage_of[i] != stage_of.back() || stage_of[first->second] != 0 || (found && found != &node))
        fail(ErrorKind::kUsage, "'{}' is shared by layers of different stages", graph.value(id).name);
      found = &node;
    }
  }
  return found;
}

void refuse_states(const Graph& graph) {
  for (const Value& value : graph.values)
    if (value.role == Role::kState) fail(ErrorKind::kUsage, "the model keeps running statistics: '{}'", value.name);
}

// Which stage trains each parameter, as runs.
void add_runs(const Graph& graph, const std::vector<std::size_t>& stage_of, std::vector<Stage>& stages) {
  std::vector<int> trainer(graph.values.size(), -1);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    for (const ValueId id : graph.nodes[i].inputs)
      if (id != kNone) trainer[index(id)] = static_cast<int>(stage_of[i]);
  std::vector<int> runs;
  std::map<std::string, int, std::less<>> run_of;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[i].role != Role::kParameter || trainer[i] < 0) continue;
    if (runs.empty() || runs.back() != trainer[i]) runs.push_back(trainer[i]);
    run_of[graph.values[i].name] = static_cast<int>(runs.size()) - 1;
  }
  for (Stage& stage : stages) stage.runs = runs, stage.run_of = run_of;
}

}  // namespace

std::vector<Stage> cut_into_stages(const Graph& forward, int stages, const std::vector<std::int64_t>& sizes) {
  CHECK(stages >= 1);
  std::vector<Stage> out(static_cast<std::size_t>(stages));
  if (stages == 1) return out;
  refuse_states(forward);
  const std::vector<std::size_t> cuts = cuts_of(forward);
  if (out.size() > cuts.size() + 1) {
    fail(ErrorKind::kUsage, "the model can be cut into {} {} at most, behind the sums of its residual stream",
         cuts.size() + 1, cuts.empty() ? "stage" : "stages");
  }
  std::vector<double> cost(cuts.size() + 1, 0);
  std::vector<std::size_t> piece_of(forward.nodes.size(), 0);
  for (std::size_t i = 0, piece = 0; i < forward.nodes.size(); ++i) {
    piece_of[i] = piece;
    cost[piece] += flops_of(forward, forward.nodes[i], sizes);
    if (piece < cuts.size() && cuts[piece] == i) ++piece;
  }
  const std::vector<std::size_t> begins = balanced(cost, out.size());
  std::vector<std::size_t> stage_of(forward.nodes.size(), 0);
  for (std::size_t i = 0; i < stage_of.size(); ++i)
    stage_of[i] = static_cast<std::size_t>(std::ranges::upper_bound(begins, piece_of[i]) - begins.begin()) - 1;
  const Node* const shared = find_shared(forward, stage_of);
  for (std::size_t s = 0; s < out.size(); ++s) {
    out[s].stages = stages;
    out[s].stage = static_cast<int>(s);
    const auto sum_before = [&](std::size_t stage) {
      return forward.value(forward.nodes[cuts[begins[stage] - 1]].outputs[0]).name;
    };
    if (s > 0) out[s].input = sum_before(s);
    if (s + 1 < out.size()) out[s].output = sum_before(s + 1);
    if (!shared) continue;
    out[s].shared = forward.value(shared->inputs[1]).name;
    out[s].rows = forward.value(shared->outputs[0]).name;
  }
  add_runs(forward, stage_of, out);
  return out;
}

Graph stage_graph(const Graph& forward, const Stage& stage) {
  if (stage.is_whole()) return forward;
  const auto end_of = [&](const std::string& name) { return producer(forward, forward.find(name)) + 1; };
  const std::size_t begin = stage.input.empty() ? 0 : end_of(stage.input);
  const std::size_t end = stage.output.empty() ? forward.nodes.size() : end_of(stage.output);
  Graph out;
  out.symbols = forward.symbols;
  out.values = forward.values;
  if (stage.is_last() && !stage.rows.empty()) out.nodes.push_back(forward.nodes[end_of(stage.rows) - 1]);
  out.nodes.insert(out.nodes.end(), forward.nodes.begin() + static_cast<std::ptrdiff_t>(begin),
                   forward.nodes.begin() + static_cast<std::ptrdiff_t>(end));
  std::set<ValueId> read;
  for (const Node& node : out.nodes) read.insert(node.inputs.begin(), node.inputs.end());
  for (const ValueId id : forward.inputs)
    if (read.contains(id)) out.inputs.push_back(id);
  if (!stage.input.empty()) {
    const ValueId input = forward.find(stage.input);
    out.values[index(input)].role = Role::kInput;
    out.inputs.push_back(input);
  }
  if (stage.output.empty()) {
    out.outputs = forward.outputs;
  } else {
    out.outputs = {forward.find(stage.output)};
  }
  remove_unused_values(out);
  return out;
}

StageLayers layers_of(const Graph& of_stage, const Stage& stage) {
  StageLayers out;
  for (const Node& node : of_stage.nodes) {
    if (stage.is_last() && !stage.is_whole() && !stage.rows.empty() &&
        of_stage.value(node.outputs[0]).name == stage.rows)
      continue;
    const bool has_weights = std::ranges::any_of(
        node.inputs, [&](ValueId id) { return id != kNone && of_stage.value(id).role == Role::kParameter; });
    if (!has_weights) continue;
    if (out.first.empty()) out.first = node.name;
    out.last = node.name;
  }
  return out;
}

}  // namespace mlx::graph
