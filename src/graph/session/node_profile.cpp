// Adds up the times of nodes (node_profile.h).

#include "graph/session/node_profile.h"

#include <algorithm>
#include <iterator>

namespace mlx::graph {

void NodeProfile::start(const Graph& graph, std::int64_t keep_runs) {
  on_ = true;
  keep_runs_ = keep_runs;
  calls_.clear();
  times_.assign(graph.nodes.size(), {});
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    times_[i].name = graph.nodes[i].name;
    times_[i].op = kernels::name_of(graph.nodes[i].op);
  }
}

void NodeProfile::begin_run(std::size_t steps) {
  if (on_ && keep_runs_ > 0) calls_.reserve(calls_.size() + steps);
}

void NodeProfile::add(const Step& step, double start, double seconds, bool last) {
  const auto node = static_cast<std::size_t>(step.node);
  NodeTime& time = times_[node];
  time.seconds += seconds;
  time.flops += step.cost.flops;
  time.bytes += step.cost.bytes;
  time.calls += 1;
  time.kernel = step.kernel.kernels();
  if (keep_runs_ == 0) return;
  calls_.push_back({node, start, seconds});
  if (last) --keep_runs_;
}

void NodeProfile::add_packing(const Step& step, double seconds) {
  times_[static_cast<std::size_t>(step.node)].seconds += seconds;
}

std::vector<NodeTime> NodeProfile::times() const {
  std::vector<NodeTime> ran;
  std::ranges::copy_if(times_, std::back_inserter(ran), [](const NodeTime& time) { return time.calls > 0; });
  return ran;
}

}  // namespace mlx::graph
