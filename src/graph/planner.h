// Where every value of a graph lies in memory, by liveness. Used by sessions, once a shape bucket; tests check its
// promises.
//
// Promises: values whose lives overlap never share a byte of the arena, unless one is a view of the other or took its
// place (op_list.h: "in place") when it was read for the last time. Offsets are multiples of 64. Parameters, states,
// constants and inputs are not in the arena. A node's workspace lives there while the node runs.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace mlx::graph {

// A piece of the arena. Alive from node `first` to node `last`, both included; what is an output of the graph, to the
// end.
struct Block {
  std::size_t bytes = 0;
  std::size_t offset = 0;
  int first = 0, last = 0;
};

struct MemoryPlan {
  std::vector<ValueId> root;   // by value: whose memory it has: itself, or what it is a view of or took the place of
  std::vector<int> block;      // by value: index into blocks; -1 where the root is not in the arena
  std::vector<int> workspace;  // by node: index into blocks, -1 for none
  std::vector<Block> blocks;
  std::size_t arena_bytes = 0;
  std::size_t most_alive = 0;  // bytes alive at once at the worst node: no plan can do with less
};

// `bytes` by value (rounded up here), `workspace` by node. Without `reuse` every value has its own memory: the oracle
// of tests.
MemoryPlan plan_memory(const Graph& graph, std::span<const std::size_t> bytes, std::span<const std::size_t> workspace,
                       bool reuse = true);

}  // namespace mlx::graph
