// The inference graph over rows, and its outputs as probabilities or numbers.

#include "train/predict_rows.h"

#include <cmath>

#include "base/error.h"
#include "data/batches.h"
#include "graph/passes.h"
#include "graph/session.h"
#include "train/metrics.h"

namespace mlx::train {
namespace {

constexpr std::int64_t kBatch = 256;

void append_outputs(const data::RowSchema& schema, const float* outputs, std::size_t width, std::vector<double>& to) {
  if (schema.kind == data::TargetKind::kClass) {
    const std::vector<double> probabilities = softmax({outputs, width});
    to.insert(to.end(), probabilities.begin(), probabilities.end());
    return;
  }
  for (std::size_t i = 0; i < width; ++i) {
    const auto value = static_cast<double>(outputs[i]);
    to.push_back(schema.kind == data::TargetKind::kLabels ? 1 / (1 + std::exp(-value))
                                                          : value * schema.targets[i].std + schema.targets[i].mean);
  }
}

}  // namespace

RowPredictions predict_rows(const nn::Model& model, const data::Rows& rows, kernels::Level level, Pool& pool,
                            Progress& progress) {
  if (!model.preprocessing.rows) fail(ErrorKind::kUsage, "the model takes no rows");
  const data::RowSchema& schema = *model.preprocessing.rows;
  const auto [graph, weights] = graph::fuse(graph::to_inference(model.graph), *model.weights);
  graph::SessionOptions options;
  options.level = level;
  graph::Session session(graph, weights, options, pool);
  const std::unique_ptr<data::BatchSource> source = data::row_batches(rows, schema, {.batch = kBatch});
  const std::size_t width = schema.outputs().size();
  RowPredictions out;
  out.values.reserve(static_cast<std::size_t>(rows.count) * width);
  progress.begin("predicting", static_cast<std::uint64_t>(rows.count), "rows");
  while (const data::BatchView* batch = source->next()) {
    check_interrupted();
    session.run({{graph.inputs.at(0), batch->inputs.at(0).data, batch->inputs.at(0).dims}});
    const auto* outputs = reinterpret_cast<const float*>(session.output(graph.outputs.at(0)).data());
    for (std::int64_t i = 0; i < batch->count; ++i)
      append_outputs(schema, outputs + i * static_cast<std::int64_t>(width), width, out.values);
    progress.advance(static_cast<std::uint64_t>(batch->count));
  }
  progress.end();
  out.count = rows.count;
  return out;
}

}  // namespace mlx::train
