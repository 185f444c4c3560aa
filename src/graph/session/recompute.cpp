// Recomputation as a pass over a training graph, and the search for how much to recompute.
//
// The nodes of a range whose results backward needs are copied, to right before the first node after the loss that
// needs one. The copies read what the originals read: kept values, inputs, and parameters before their update. (An
// update comes after its gradient, and the gradient after the values that it is computed from.)

#include "graph/session/recompute.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "graph/op_def.h"

namespace mlx::graph {
namespace {

// A forward node that adds a residual outputs the sum besides its result (op_def.h). The sum is passed on and kept; the
// result is recomputed from it.
ValueId sum_of(const Node& node) {
  return adds(node) ? node.outputs[op_def(node.op).addend] : kNone;
}
Node of_its_sum(const Node& node) {
  Node of_sum = node;
  const std::size_t addend = op_def(node.op).addend;
  of_sum.inputs[0] = node.outputs[addend];
  of_sum.inputs.resize(addend);
  of_sum.outputs.resize(addend);
  return of_sum;
}

bool is_activation(const Graph& graph, ValueId id) {
  return id != kNone && graph.value(id).role == Role::kActivation;
}

struct Copies {
  std::size_t before = 0;  // the node of the graph that they precede
  std::vector<Node> nodes;
};

// One range of a graph that is to be recomputed.
class Range {
 public:
  Range(const TrainingGraph& training, NodeRange range)
      : graph_(training.graph), loss_end_(training.loss_end), range_(range), needed_(graph_.values.size(), 0) {
    find_needed();
  }

  // The values that backward takes from copies: everything that it needs except what is passed on, with the nodes that
  // compute it.
  const std::vector<char>& needed() const { return needed_; }
  // The first node after the loss that needs one of them; nodes.size() if there is none.
  std::size_t first_reader() const {
    std::size_t at = loss_end_;
    while (at < graph_.nodes.size() && !reads_needed(graph_.nodes[at])) ++at;
    return at;
  }
  bool is_copied(const Node& node) const {
    return std::ranges::any_of(node.outputs, [&](ValueId id) { return id != kNone && needed_[index(id)] != 0; });
  }
  // True if a node after the loss and before `reader` writes what one of the copies reads.
  bool is_overwritten(std::size_t reader) const {
    for (std::size_t i = range_.begin; i < range_.end; ++i) {
      if (!is_copied(graph_.nodes[i])) continue;
      for (const ValueId id : graph_.nodes[i].inputs) {
        for (std::size_t k = loss_end_; k < reader; ++k)
          if (id != kNone && std::ranges::find(graph_.nodes[k].outputs, id) != graph_.nodes[k].outputs.end())
            return true;
      }
    }
    return false;
  }

 private:
  bool reads_needed(const Node& node) const {
    return std::ranges::any_of(node.inputs, [&](ValueId id) { return id != kNone && needed_[index(id)] != 0; });
  }

  void find_needed() {
    std::vector<char> kept(graph_.values.size(), 0), wanted(graph_.values.size(), 0);
    for (const ValueId id : graph_.outputs) kept[index(id)] = 1;
    for (std::size_t i = range_.end; i < graph_.nodes.size(); ++i) {
      for (const ValueId id : graph_.nodes[i].inputs)
        if (is_activation(graph_, id)) (i < loss_end_ ? kept : wanted)[index(id)] = 1;
    }
    // What ranks have computed together is kept: they need not recompute the same.
    for (std::size_t i = range_.begin; i < range_.end; ++i)
      if (op_def(graph_.nodes[i].op).collective) kept[index(graph_.nodes[i].outputs[0])] = 1;
    for (std::size_t i = range_.end; i-- > range_.begin;) {
      const ValueId sum = sum_of(graph_.nodes[i]);
      const bool of_sum = sum != kNone && kept[index(sum)] != 0;
      const Node node = of_sum ? of_its_sum(graph_.nodes[i]) : graph_.nodes[i];
      const auto in = [](const std::vector<char>& set) {
        return [&set](ValueId id) { return id != kNone && set[index(id)] != 0; };
      };
      // A node with a kept output is not run again for its other outputs.
      if (std::ranges::any_of(node.outputs, in(kept)) || std::ranges::none_of(node.outputs, in(wanted))) continue;
      for (const ValueId id : node.outputs)
        if (is_activation(graph_, id) && wanted[index(id)] != 0) needed_[index(id)] = 1;
      for (const ValueId id : node.inputs)
        if (is_activation(graph_, id)) wanted[index(id)] = 1;
    }
  }

  const Graph& graph_;
  std::size_t loss_end_;
  NodeRange range_;
  std::vector<char> needed_;
};

// A copy of a node that reads and writes copies of values, if they exist.
Node copy_of(Graph& graph, const Node& node, std::vector<ValueId>& copies) {
  Node copy = node;
  copy.name += ".again";
  // With momentum 0 the running statistics stay what they are.
  if (copy.op == Op::kBatchNorm || copy.op == Op::kBatchNormSynchronised) copy.attrs.momentum = 0;
  for (ValueId& id : copy.inputs)
    if (id != kNone) id = copies[index(id)];
  for (ValueId& id : copy.outputs) {
    if (!is_activation(graph, id)) continue;
    Value value = graph.value(id);
    value.name += ".again";
    graph.values.push_back(std::move(value));
    copies[index(id)] = static_cast<ValueId>(graph.values.size() - 1);
    id = copies[index(id)];
  }
  return copy;
}

std::optional<Copies> copy_range(const TrainingGraph& training, Graph& out, NodeRange nodes) {
  const Range range(training, nodes);
  const std::size_t reader = range.first_reader();
  if (reader == training.graph.nodes.size() || range.is_overwritten(reader)) return std::nullopt;
  std::vector<ValueId> copies(training.graph.values.size());
  for (std::size_t i = 0; i < copies.size(); ++i) copies[i] = static_cast<ValueId>(i);
  Copies made{reader, {}};
  for (std::size_t i = nodes.begin; i < nodes.end; ++i) {
    const Node& node = training.graph.nodes[i];
    if (!range.is_copied(node)) continue;
    const ValueId sum = sum_of(node);
    const bool of_sum = sum != kNone && range.needed()[index(sum)] == 0;
    made.nodes.push_back(copy_of(out, of_sum ? of_its_sum(node) : node, copies));
  }
  for (std::size_t i = reader; i < out.nodes.size(); ++i) {
    for (ValueId& id : out.nodes[i].inputs)
      if (id != kNone && index(id) < copies.size() && range.needed()[index(id)] != 0) id = copies[index(id)];
  }
  return made;
}

// The values computed from parameters and constants alone, such as a GPU's half-precision copies of weights. They exist
// throughout the step, whatever is recomputed.
std::vector<char> same_all_step(const TrainingGraph& training) {
  const Graph& graph = training.graph;
  std::vector<char> same(graph.values.size(), 0);
  for (std::size_t i = 0; i < same.size(); ++i)
    same[i] = graph.values[i].role == Role::kParameter || graph.values[i].role == Role::kConstant;
  for (std::size_t i = 0; i < training.loss_end; ++i) {
    const Node& node = graph.nodes[i];
    const bool all = std::ranges::all_of(node.inputs, [&](ValueId id) { return id == kNone || same[index(id)] != 0; });
    for (const ValueId id : node.outputs)
      if (is_activation(graph, id)) same[index(id)] = all;
  }
  return same;
}

// Groups of `group` adjacent parts each, the first `ranges` of them.
std::vector<NodeRange> grouped(const std::vector<NodeRange>& parts, std::size_t group, std::size_t ranges) {
  std::vector<NodeRange> out;
  for (std::size_t i = 0; i < parts.size() && out.size() < ranges; i += group)
    out.push_back({parts[i].begin, parts[std::min(parts.size(), i + group) - 1].end});
  return out;
}

}  // namespace

std::vector<NodeRange> recomputable_parts(const TrainingGraph& training) {
  const Graph& graph = training.graph;
  const std::vector<char> constant = same_all_step(training);
  std::vector<std::size_t> last_read(graph.values.size(), 0);  // in the forward pass
  for (std::size_t i = 0; i < training.loss_end; ++i)
    for (const ValueId id : graph.nodes[i].inputs)
      if (is_activation(graph, id)) last_read[index(id)] = i;
  std::vector<int> going_on(training.loss_end + 1, 0);  // by node: earlier values that it or later nodes read
  for (std::size_t i = 0; i < training.loss_end; ++i)
    for (const ValueId id : graph.nodes[i].outputs)
      if (is_activation(graph, id) && constant[index(id)] == 0)
        for (std::size_t k = i + 1; k <= last_read[index(id)]; ++k) ++going_on[k];
  std::vector<NodeRange> parts;
  std::size_t begin = 0;
  for (std::size_t i = 1; i < training.loss_end; ++i) {
    if (going_on[i] != (adds(graph.nodes[i]) ? 2 : 1)) continue;  // the two terms of a sum count as one
    parts.push_back({begin, i});
    begin = i;
  }
  return parts;
}

TrainingGraph recompute(const TrainingGraph& training, const std::vector<NodeRange>& ranges) {
  TrainingGraph out = training;
  std::vector<Copies> all;
  for (const NodeRange& range : ranges) {
    std::optional<Copies> copies = copy_range(training, out.graph, range);
    if (!copies) continue;
    if (copies->before < training.update_begin) out.update_begin += copies->nodes.size();
    if (copies->before < training.stage.late_begin) out.stage.late_begin += copies->nodes.size();
    all.push_back(std::move(*copies));
  }
  std::vector<Node> nodes;
  for (std::size_t i = 0; i < out.graph.nodes.size(); ++i) {
    for (Copies& copies : all)
      if (copies.before == i) std::ranges::move(copies.nodes, std::back_inserter(nodes));
    nodes.push_back(std::move(out.graph.nodes[i]));
  }
  out.graph.nodes = std::move(nodes);
  return out;
}

Fitted fit_memory(const TrainingGraph& training, const std::vector<std::int64_t>& sizes, kernels::Backend backend,
                  std::size_t bytes) {
  const auto wanted = [](const Fitted& fitted) { return fitted.memory.arena + fitted.memory.packed; };
  const auto tried = [&](TrainingGraph graph) {
    Fitted out{std::move(graph), {}, 0, false};
    out.memory = planned_memory(out.training.graph, sizes, backend, true, out.training.kept());
    out.nodes = out.training.graph.nodes.size() - training.graph.nodes.size();
    out.fits = wanted(out) <= bytes;
    return out;
  };
  Fitted best = tried(training);
  if (best.fits) return best;
  const std::vector<NodeRange> parts = recomputable_parts(training);
  for (std::size_t group = 1; group <= parts.size(); group += std::max<std::size_t>(1, group / 2)) {
    const std::size_t all = (parts.size() + group - 1) / group;
    Fitted most = tried(recompute(training, grouped(parts, group, all)));
    if (wanted(most) < wanted(best)) best = most;
    if (!most.fits) continue;
    // The first parts have values that live longest: recompute as many of them as necessary.
    std::size_t few = 0, enough = all;
    while (enough - few > 1) {
      const std::size_t middle = few + (enough - few) / 2;
      Fitted next = tried(recompute(training, grouped(parts, group, middle)));
      (next.fits ? enough : few) = middle;
      if (next.fits) most = std::move(next);
    }
    return most;
  }
  return best;
}

}  // namespace mlx::graph
