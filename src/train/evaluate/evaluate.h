// Evaluation of a model on a split: loss, the metrics that suit the kind of target (metrics.h), and speed. For classes
// also the confusion matrix; for classes and labels precision and recall of each.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/json_fwd.h"
#include "data/dataset.h"
#include "kernels/backend.h"
#include "nn/model.h"
#include "train/evaluate/metrics.h"

namespace mlx::train {

struct NumberMetrics {
  double rmse = 0, mae = 0, r2 = 0;
};

struct Evaluation {
  std::string split;
  Digest data;
  std::string unit = "images";  // what is counted (data::Kind)
  data::TargetKind targets = data::TargetKind::kClass;
  // `count`: examples; for several labels, decisions; for text, predicted tokens. `correct`: how many of them were
  // right; not for numbers.
  std::int64_t count = 0, correct = 0;
  double loss = 0;                  // mean cross-entropy in nats; for numbers, squared error in units of their std
  std::vector<std::string> labels;  // of the outputs
  std::vector<std::vector<std::int64_t>> confusion;     // [truth][predicted]; of up to 1,024 classes
  std::vector<ClassMetrics> classes;                    // of classes and labels
  std::vector<NumberMetrics> numbers;                   // of numbers
  std::vector<std::pair<std::string, double>> metrics;  // "accuracy", "rmse" …; only what is defined
  std::vector<std::string> skipped;  // bad photos that were left out, as in the training ([data] skip_bad)
  double per_second = 0;             // images, rows or tokens; without the first batch, which warms up

  double accuracy() const { return count ? static_cast<double>(correct) / static_cast<double>(count) : 0; }
  bool has_accuracy() const { return targets != data::TargetKind::kNumbers; }
  void metric(const char* name, double value);  // omitted if it is not finite
};

const char* main_metric(const Evaluation& evaluation);  // the metric that judges it: "accuracy", "r2", "bits_per_byte"
// For one class, from the confusion matrix or as measured.
ClassMetrics class_metrics(const Evaluation& evaluation, std::size_t index);

// How many examples evaluate() takes at once; `context` is the length of a window of text.
std::int64_t evaluation_batch(const data::Description& about, std::int64_t context);
Evaluation evaluate(const nn::Model& model, const data::Dataset& dataset, kernels::Backend backend, Pool& pool,
                    Progress& progress);
// On a split of a stored dataset. Throws kUsage if the model does not take what it holds.
Evaluation evaluate_on(const store::Store& store, const Digest& dataset, const std::string& split,
                       const nn::Model& model, kernels::Backend backend, Pool& pool, Progress& progress,
                       const data::MemoryBudget& budget = {});
// On a split of a folder of files, which is stored in a temporary folder.
Evaluation evaluate_on_folder(const std::string& folder, const std::string& split, const nn::Model& model,
                              kernels::Backend backend, store::Disk& disk, Pool& pool, Progress& progress,
                              const data::MemoryBudget& budget = {});
Json to_json(const Evaluation& evaluation);
Evaluation evaluation_from_json(const Json& json);

}  // namespace mlx::train
