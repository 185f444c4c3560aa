// Batch norm over the micro-batches of all ranks (PyTorch's SyncBatchNorm): between a norm and what it reads, each rank
// gives the statistics of its rows and gets those of the others. Backward does the same with the sums over rows
// (ops/norm.cpp).

#include <utility>

#include "graph/passes/passes.h"

namespace mlx::graph {

Graph synchronise_norms(const Graph& forward, std::int64_t ranks) {
  Graph graph = forward;
  Attrs of_ranks;
  of_ranks.groups = ranks;
  for (Node& node : std::exchange(graph.nodes, {})) {
    if (node.op == Op::kBatchNorm) {
      const ValueId own = graph.add(Op::kBatchNormStatistics, {}, {node.inputs[0]}, node.name + ".statistics")[0];
      node.op = Op::kBatchNormSynchronised;
      node.inputs.push_back(graph.add(Op::kAllGather, of_ranks, {own}, node.name + ".statistics.all")[0]);
    }
    graph.nodes.push_back(std::move(node));
  }
  return graph;
}

bool has_batch_norm(const Graph& forward) {
  for (const Node& node : forward.nodes)
    if (node.op == Op::kBatchNorm) return true;
  return false;
}

}  // namespace mlx::graph
