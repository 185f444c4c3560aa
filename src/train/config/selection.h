// Which model of a training is the best, and when continuing is pointless. Judged by a metric on the validation data
// after each epoch.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/json_fwd.h"
#include "base/toml.h"

namespace mlx::train {

struct SelectionConfig {
  bool keep_best = false;     // store the best model, not the last
  std::int64_t patience = 0;  // epochs without an improvement after which the training ends; 0: unlimited
  std::string metric;         // "" if none of this is wanted
};

using Metrics = std::vector<std::pair<std::string, double>>;  // "accuracy", "loss" …

// Reads keep, patience, metric. They need validation data: refused if `validated` is false.
SelectionConfig read_selection(TomlReader& train, bool validated);
void write_selection(const SelectionConfig& selection, Json& train);  // only what is not the default

// What has been seen so far; part of a checkpoint.
struct Selection {
  Metrics last, best;                         // empty before the first epoch's end
  std::int64_t last_step = 0, best_step = 0;  // steps done
  std::int64_t epochs_since = 0;              // epochs without an improvement
};
// Adds an epoch's metrics. True if they are the best so far. Throws kUsage if the metric is not among them.
bool improves(Selection& selection, const SelectionConfig& config, const Metrics& metrics, std::int64_t step);
bool out_of_patience(const Selection& selection, const SelectionConfig& config);

Json to_json(const Selection& selection);
Selection selection_from_json(const Json& json, const std::string& what);  // kCorrupt

}  // namespace mlx::train
