// What differs between two versions of models beside their tensors: parameters, graph, metrics. Used by cmd/diff.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "diff/diff_values.h"
#include "registry/versions/artifacts.h"

namespace mlx::diff {

struct LayerChange {
  enum class Kind { kAdded, kRemoved, kChanged } kind = Kind::kChanged;
  std::string name, op;       // of the later version where both have it
  std::string before, after;  // attributes, shapes of parameters and output: "[8,3,3,1] → [batch,6,6,8], kernel [3,3]"
};

// By model.json's graphs: layers that do the same with the same shapes are the same, whatever they are called; what
// stands between those goes together in order where the operation is the same. kCorrupt if a graph is none.
std::vector<LayerChange> diff_graphs(const Json& before, const Json& after);

struct MetricChange {
  std::string where, name;  // "data/fashion@v1 test", "accuracy"; where "" for the run's own figures
  std::optional<double> before, after;
};

struct ModelDiff {
  std::vector<ValueChange> parameters;  // of model.json: config, precision, labels, preprocessing
  std::vector<ValueChange> training;    // of the runs that made the two, where both are known
  std::vector<LayerChange> layers;
  std::vector<MetricChange> metrics;  // all that are known of either, equal or not
};

// kCorrupt if a model.json is none; kNotFound if it is not in this repository.
ModelDiff diff_models(registry::Repository& repository, const registry::Version& before,
                      const registry::Version& after);

}  // namespace mlx::diff
