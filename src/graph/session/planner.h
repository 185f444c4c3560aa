// Places every value of a graph in memory, by liveness. Used by sessions, once per shape bucket; tests check its
// guarantees.
//
// Guarantees: values whose lives overlap never share a byte of the arena, unless one is a view of the other, or
// replaced it (op_list.h: "in place") at its last use. Offsets are multiples of 64. Parameters, states, constants and
// inputs are not in the arena. A node's workspace is in the arena while the node runs.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "graph/memory.h"

namespace mlx::graph {

// A piece of the arena, alive from node `first` to node `last` inclusive. Outputs of the graph live to the end.
struct Block {
  std::size_t bytes = 0;
  std::size_t offset = 0;
  int first = 0, last = 0;
  bool kept = false;  // in each slot, and not in the arena
};

struct MemoryPlan {
  std::vector<ValueId> root;   // by value: the owner of its memory: itself, or the value that it views or replaced
  std::vector<int> block;      // by value: index into blocks; -1 if the root is not in the arena
  std::vector<int> workspace;  // by node: index into blocks, -1 for none
  std::vector<Block> blocks;
  std::size_t arena_bytes = 0;
  std::size_t slot_bytes = 0;  // of the kept values
  int slots = 0;               // 0: nothing is kept, all is in the arena
  std::size_t bytes() const { return arena_bytes + static_cast<std::size_t>(slots) * slot_bytes; }
  std::size_t most_alive = 0;  // bytes alive at once at the worst node: a lower bound for any plan
};

// `bytes` by value (rounded up here), `workspace` by node. Without `reuse` every value has its own memory: the oracle
// for tests. With several slots the kept values are beside the arena: slot after slot, all of them in each.
MemoryPlan plan_memory(const Graph& graph, std::span<const std::size_t> bytes, std::span<const std::size_t> workspace,
                       bool reuse = true, const KeptValues& kept = {});

}  // namespace mlx::graph
