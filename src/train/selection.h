// Which of the models that a training comes by is the best, and when it is in vain to go on. Judged by a metric of the
// validation data after each epoch.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/json_fwd.h"
#include "base/toml.h"

namespace mlx::train {

struct SelectionConfig {
  bool keep_best = false;     // the model that is stored: the best, not the last
  std::int64_t patience = 0;  // epochs without an improvement after which the training ends; 0: none
  std::string metric;         // "" where nothing of this is asked for
};

using Metrics = std::vector<std::pair<std::string, double>>;  // "accuracy", "loss" …

// Reads keep, patience, metric. They need validation data: refused where `validated` is false.
SelectionConfig read_selection(TomlReader& train, bool validated);
void write_selection(const SelectionConfig& selection, Json& train);  // what is not the default

// What has been seen so far; part of a checkpoint.
struct Selection {
  Metrics last, best;                         // empty before the first epoch's end
  std::int64_t last_step = 0, best_step = 0;  // steps that were done
  std::int64_t epochs_since = 0;              // without an improvement
};
// Takes the metrics of an epoch in; whether they are the best so far. kUsage where the metric is not among them.
bool improves(Selection& selection, const SelectionConfig& config, const Metrics& metrics, std::int64_t step);
bool out_of_patience(const Selection& selection, const SelectionConfig& config);

Json to_json(const Selection& selection);
Selection selection_from_json(const Json& json, const std::string& what);  // kCorrupt

}  // namespace mlx::train
