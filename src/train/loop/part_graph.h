// The graphs of the part of a model that one rank holds: a stage (graph/passes/stages.h), and of that one of the parts
// that ranks compute together (graph/passes/partition.h). Used by training_step.cpp, by the memory forecast and before
// a training begins, to say what cannot be divided.
#pragma once

#include <vector>

#include "data/dataset.h"
#include "graph/passes/passes.h"
#include "nn/family.h"
#include "train/config/config.h"

namespace mlx::train {

// The stages of the model ([train] pp). Throws kUsage if there cannot be so many.
std::vector<graph::Stage> stages_of(const nn::Built& built, const TrainConfig& config);
// The forward graph of the rank at `place` in its row (dist/rank_grid.h). Throws kUsage if the model does not divide.
graph::Partitioned part_of_model(const nn::Built& built, const TrainConfig& config, int place);
// What it trains. `micro_batches`: those of a step on this rank, of a stage.
graph::TrainingGraph training_graph_of(const nn::Built& built, const TrainConfig& config, const data::Description& data,
                                       kernels::Backend backend, const graph::Partitioned& part, int micro_batches);
// Whether batch norms are over the micro-batches of all ranks. Of one rank they are over all it has in any case.
inline bool synchronises_norms(const TrainConfig& config) {
  return config.synchronised_norms && config.accumulate > 1;
}
// Whether images are fed as bytes, and augmented by the graph itself.
bool is_fed_raw(const data::Description& data, kernels::Backend backend);

}  // namespace mlx::train
