// Times of a session's nodes while profiling is on. Used by sessions only.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/session/bucket.h"
#include "graph/session/session.h"

namespace mlx::graph {

class NodeProfile {
 public:
  // Also keeps the single calls of the next `keep_runs` runs.
  void start(const Graph& graph, std::int64_t keep_runs);
  void stop() { on_ = false; }
  bool on() const { return on_; }
  void begin_run(std::size_t steps);  // reserves memory, so that the run allocates nothing
  // `last`: the run's last step. A run in parts ends with its last part.
  void add(const Step& step, double start, double seconds, bool last);
  void add_packing(const Step& step, double seconds);  // of weights, for a node
  std::vector<NodeTime> times() const;                 // of the nodes that ran
  const std::vector<NodeCall>& calls() const { return calls_; }

 private:
  bool on_ = false;
  std::vector<NodeTime> times_;  // by node
  std::int64_t keep_runs_ = 0;   // the number of runs whose single calls are still to be kept
  std::vector<NodeCall> calls_;
};

}  // namespace mlx::graph
