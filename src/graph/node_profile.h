// Times of a session's nodes, from when it is told to take them. Used by sessions only.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/bucket.h"
#include "graph/session.h"

namespace mlx::graph {

class NodeProfile {
 public:
  // The calls of the next `keep_runs` runs are also kept one by one.
  void start(const Graph& graph, std::int64_t keep_runs);
  void stop() { on_ = false; }
  bool on() const { return on_; }
  void begin_run(std::size_t steps);  // so that nothing is allocated in it
  // `last` of its run: what runs in parts ends with the last.
  void add(const Step& step, double start, double seconds, bool last);
  void add_packing(const Step& step, double seconds);  // of weights, for a node
  std::vector<NodeTime> times() const;                 // of nodes that ran
  const std::vector<NodeCall>& calls() const { return calls_; }

 private:
  bool on_ = false;
  std::vector<NodeTime> times_;  // by node
  std::int64_t keep_runs_ = 0;   // so many runs are still to be kept call by call
  std::vector<NodeCall> calls_;
};

}  // namespace mlx::graph
