// The passes that make a part's graph, one after another.
#include "train/loop/part_graph.h"

#include <algorithm>

#include "train/loop/pipeline_schedule.h"

namespace mlx::train {
namespace {

graph::Graph trained_graph(const graph::Graph& part, const nn::Built& built, const TrainConfig& config,
                           const data::Description& data, kernels::Backend backend) {
  graph::Graph graph = graph::freeze(part, built.frozen);
  if (synchronises_norms(config)) graph = graph::synchronise_norms(graph, config.accumulate);
  if (built.teacher) graph = graph::with_teacher(graph, *built.teacher);
  if (!is_fed_raw(data, backend)) return graph;
  graph::RawImages raw{data.kind->input, data::kPixelsInput, data::kChangesInput, data::kTableInput};
  raw.mixed = config.reading.augment.mixup > 0;
  raw.partner_pixels = data::kPartnerPixelsInput;
  raw.partner_changes = data::kPartnerChangesInput;
  raw.share = data::kShareInput;
  return graph::augment_inside(graph, raw);
}

}  // namespace

bool is_fed_raw(const data::Description& data, kernels::Backend backend) {
  return backend.can().augments_images && data.kind->raw;
}

// By the cost of one example: that of a batch is as much for every stage.
std::vector<graph::Stage> stages_of(const nn::Built& built, const TrainConfig& config) {
  std::vector<std::int64_t> sizes(built.graph.symbols.size(), std::max<std::int64_t>(1, built.context));
  if (const int batch = built.graph.value(built.graph.inputs.at(0)).dims.at(0).symbol(); batch >= 0)
    sizes[static_cast<std::size_t>(batch)] = 1;
  return graph::cut_into_stages(built.graph, static_cast<int>(config.pp), sizes);
}

graph::Partitioned part_of_model(const nn::Built& built, const TrainConfig& config, int place) {
  const int parts = static_cast<int>(config.tp);
  graph::Partitioned out{built.graph, {}};
  if (parts > 1) out = graph::partition(built.graph, parts, place % parts);
  out.partition.stage = stages_of(built, config).at(static_cast<std::size_t>(place / parts));
  out.graph = graph::stage_graph(out.graph, out.partition.stage);
  return out;
}

graph::TrainingGraph training_graph_of(const nn::Built& built, const TrainConfig& config, const data::Description& data,
                                       kernels::Backend backend, const graph::Partitioned& part, int micro_batches) {
  graph::TrainingGraph out = graph::to_training(trained_graph(part.graph, built, config, data, backend),
                                                config.optimizer, loss_spec(config, data.targets),
                                                {precision_of(config, data, backend), backend.can()}, part.partition);
  const graph::Stage& stage = part.partition.stage;
  const bool late = out.stage.late_begin < out.update_begin;
  if (!stage.is_whole()) out.slots = kept_micro_batches(stage.stages, stage.stage, micro_batches, late);
  return out;
}

}  // namespace mlx::train
