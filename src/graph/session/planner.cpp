// Memory planning. Values that share memory are joined into groups, the groups become blocks with a life, and blocks
// get offsets greedily. (Greedy by size: Pisarchyk & Lee, "Efficient Memory Management for Deep Neural Net Inference",
// 2020.)

#include "graph/session/planner.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "graph/op_def.h"

namespace mlx::graph {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// The last node that reads each value; the number of nodes for the graph's outputs, -1 if nothing reads it.
std::vector<int> last_reads(const Graph& graph) {
  std::vector<int> last(graph.values.size(), -1);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const std::vector<ValueId>* ids : {&graph.nodes[i].inputs, &graph.nodes[i].outputs}) {
      for (const ValueId id : *ids) {
        if (id != kNone) last[index(id)] = static_cast<int>(i);
      }
    }
  }
  for (const ValueId id : graph.outputs) last[index(id)] = static_cast<int>(graph.nodes.size());
  return last;
}

// Joins views with the values they show, and outputs with an input that they may replace. last[root] is the life of the
// group.
void share_memory(const Graph& graph, std::span<const std::size_t> bytes, std::vector<int>& last,
                  std::vector<ValueId>& root) {
  for (const Node& node : graph.nodes) {
    if (!op_def(node.op).view) continue;
    const ValueId shown = root[index(node.inputs[0])];
    root[index(node.outputs[0])] = shown;
    last[index(shown)] = std::max(last[index(shown)], last[index(node.outputs[0])]);
  }
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const OpDef& def = op_def(node.op);
    if (def.in_place_output >= node.outputs.size()) continue;
    const ValueId output = node.outputs[def.in_place_output];
    for (std::size_t k = 0; def.in_place >> k != 0; ++k) {
      if ((def.in_place >> k & 1u) == 0 || k >= node.inputs.size() || node.inputs[k] == kNone) continue;
      // Roots of views were found before values replaced others, so follow them to the group that they are in now.
      const auto group = [&](ValueId id) {
        while (root[index(id)] != id) id = root[index(id)];
        return id;
      };
      const ValueId input = group(node.inputs[k]);
      const bool alone =
          std::ranges::count_if(node.inputs, [&](ValueId id) { return id != kNone && group(id) == input; }) == 1;
      if (!alone || graph.value(input).role != Role::kActivation || last[index(input)] != static_cast<int>(i) ||
          kernels::size_of(graph.value(input).dtype) != kernels::size_of(graph.value(output).dtype) ||
          aligned(bytes[index(input)]) != aligned(bytes[index(output)])) {
        continue;
      }
      root[index(output)] = input;
      last[index(input)] = last[index(output)];
      break;
    }
  }
  for (ValueId& id : root) {
    while (root[index(id)] != id) id = root[index(id)];
  }
}

bool overlap(const Block& a, const Block& b) {
  return a.first <= b.last && b.first <= a.last;
}

// Places blocks in the given order, each into the smallest sufficient gap among those that live at the same time.
// Returns the arena's size.
std::size_t place(std::vector<Block>& blocks, const std::vector<std::size_t>& order) {
  std::vector<std::size_t> placed;  // by offset
  std::size_t arena = 0;
  for (const std::size_t at : order) {
    Block& block = blocks[at];
    std::size_t end = 0, best = 0, best_gap = SIZE_MAX;
    for (const std::size_t other : placed) {
      if (!overlap(block, blocks[other])) continue;
      const std::size_t offset = blocks[other].offset;
      if (offset > end && offset - end >= block.bytes && offset - end < best_gap) {
        best = end;
        best_gap = offset - end;
      }
      end = std::max(end, offset + blocks[other].bytes);
    }
    block.offset = best_gap == SIZE_MAX ? end : best;
    arena = std::max(arena, block.offset + block.bytes);
    const auto behind =
        std::ranges::find_if(placed, [&](std::size_t other) { return blocks[other].offset > block.offset; });
    placed.insert(behind, at);
  }
  return arena;
}

std::size_t most_alive(const std::vector<Block>& blocks, std::size_t nodes) {
  std::vector<std::int64_t> change(nodes + 2, 0);
  for (const Block& block : blocks) {
    change[static_cast<std::size_t>(block.first)] += static_cast<std::int64_t>(block.bytes);
    change[static_cast<std::size_t>(block.last) + 1] -= static_cast<std::int64_t>(block.bytes);
  }
  std::int64_t alive = 0, most = 0;
  for (const std::int64_t step : change) most = std::max(most, alive += step);
  return static_cast<std::size_t>(most);
}

// Tries three orders and keeps the best: largest first is near the bound for nets, order of life for long chains.
std::size_t place_best(std::vector<Block>& blocks) {
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  const auto by = [&](auto&& key) {
    std::vector<std::size_t> sorted = order;
    std::ranges::stable_sort(sorted, [&](std::size_t a, std::size_t b) { return key(blocks[a]) < key(blocks[b]); });
    return sorted;
  };
  const auto size_of_block = [](const Block& b) { return -static_cast<double>(b.bytes); };
  const auto area = [](const Block& b) { return -static_cast<double>(b.bytes) * (b.last - b.first + 1); };
  const auto birth = [](const Block& b) { return std::tuple(b.first, -static_cast<double>(b.bytes)); };
  std::vector<Block> best;
  std::size_t best_arena = SIZE_MAX;
  for (const std::vector<std::size_t>& sorted : {by(size_of_block), by(area), by(birth)}) {
    std::vector<Block> trial = blocks;
    const std::size_t arena = place(trial, sorted);
    if (arena >= best_arena) continue;
    best_arena = arena;
    best = std::move(trial);
  }
  blocks = std::move(best);
  return best_arena;
}

// Places kept blocks side by side, because all of them are alive at the split, and the others in the arena.
MemoryPlan in_slots(MemoryPlan plan, const KeptValues& kept) {
  const int split = static_cast<int>(kept.split);
  std::vector<Block> others;
  for (Block& block : plan.blocks) {
    block.kept = block.first < split && block.last >= split;
    if (!block.kept) {
      others.push_back(block);
      continue;
    }
    block.offset = plan.slot_bytes;
    plan.slot_bytes += block.bytes;
  }
  plan.slots = kept.slots;
  plan.arena_bytes = others.empty() ? 0 : place_best(others);
  std::size_t at = 0;
  for (Block& block : plan.blocks)
    if (!block.kept) block.offset = others[at++].offset;
  return plan;
}

}  // namespace

MemoryPlan plan_memory(const Graph& graph, std::span<const std::size_t> bytes, std::span<const std::size_t> workspace,
                       bool reuse, const KeptValues& kept) {
  const int nodes = static_cast<int>(graph.nodes.size());
  MemoryPlan plan;
  plan.root.resize(graph.values.size());
  std::iota(plan.root.begin(), plan.root.end(), 0);
  plan.block.assign(graph.values.size(), -1);
  plan.workspace.assign(graph.nodes.size(), -1);
  std::vector<int> last = last_reads(graph);
  if (reuse) {
    share_memory(graph, bytes, last, plan.root);
  } else {
    std::ranges::fill(last, nodes);
    for (const Node& node : graph.nodes) {
      if (op_def(node.op).view) plan.root[index(node.outputs[0])] = plan.root[index(node.inputs[0])];
    }
  }
  for (int i = 0; i < nodes; ++i) {
    const auto at = static_cast<std::size_t>(i);
    for (const ValueId id : graph.nodes[at].outputs) {
      if (id == kNone || graph.value(id).role != Role::kActivation) continue;
      const ValueId root = plan.root[index(id)];
      if (graph.value(root).role != Role::kActivation) continue;  // a view of something outside of the arena
      if (root == id) {
        plan.block[index(id)] = static_cast<int>(plan.blocks.size());
        plan.blocks.push_back({aligned(bytes[index(id)]), 0, reuse ? i : 0, last[index(id)]});
      } else {
        plan.block[index(id)] = plan.block[index(root)];
      }
    }
    if (workspace[at] == 0) continue;
    plan.workspace[at] = static_cast<int>(plan.blocks.size());
    plan.blocks.push_back({aligned(workspace[at]), 0, reuse ? i : 0, reuse ? i : nodes});
  }
  plan.most_alive = most_alive(plan.blocks, graph.nodes.size());
  if (kept.slots > 1) return in_slots(std::move(plan), kept);
  plan.arena_bytes = plan.blocks.empty() ? 0 : place_best(plan.blocks);
  return plan;
}

}  // namespace mlx::graph
