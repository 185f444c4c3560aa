// Pipeline parallelism as a pass (GPipe, Huang et al. 2019; 1F1B, Narayanan et al. 2019): consecutive parts of a
// forward graph are stages, which different ranks compute for different micro-batches at the same time. Used by
// training, which passes values and gradients on between them. Nothing is added in another order than in the whole
// graph, so stages change no bit.
//
// A graph is cut behind sums of which everything later is computed: the residual stream. Weights that the first stage
// looks up rows of and the last one multiplies with (tied embeddings) are the last one's: the first has a copy, and
// sends the gradient of the rows, so that the last one can add both gradients of each micro-batch.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace mlx::graph {

// One of the stages of a forward graph, by names, which parts of the model (partition.h) share.
struct Stage {
  int stages = 1, stage = 0;  // of which this is one
  std::string input, output;  // the values that come from the stage before and go to the next; "" for none
  // Weights that the first stage reads and the last one trains, and what the first computes from them; "" for none.
  std::string shared, rows;
  // Parameters in the order of the whole graph, as runs of neighbours that one stage trains: these stages, and the run
  // of each parameter. A norm over all of them is made run by run.
  std::vector<int> runs;
  std::map<std::string, int, std::less<>> run_of;

  bool is_whole() const { return stages == 1; }
  bool is_first() const { return stage == 0; }
  bool is_last() const { return stage + 1 == stages; }
  // Of parameters and of the states that belong to them: whether this stage has only a copy, which another one trains.
  bool copies(std::string_view name) const { return !is_last() && !shared.empty() && name == shared; }
};

// Cuts so that the most expensive stage costs as little as possible, by floating-point operations at these sizes (by
// symbol). Throws kUsage if the graph cannot be cut into so many stages.
std::vector<Stage> cut_into_stages(const Graph& forward, int stages, const std::vector<std::int64_t>& sizes);
// The graph of a stage, of the whole forward graph or of a part of it. Its input is an input of the graph, its output
// the graph's output. The last one's has the node that computes `rows`, so that backward can add its gradient.
Graph stage_graph(const Graph& forward, const Stage& stage);
// The first and the last layer of a stage's graph with weights of its own: "block0.norm1", "block3.mlp.down".
struct StageLayers {
  std::string first, last;
};
StageLayers layers_of(const Graph& of_stage, const Stage& stage);

}  // namespace mlx::graph
