// Differences between two versions of models, without their tensors: parameters, graph, metrics. Used by cmd/diff.
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
  std::string name, op;       // of the later version, if it has the layer
  std::string before, after;  // attributes, shapes of parameters and output: "[8,3,3,1] → [batch,6,6,8], kernel [3,3]"
};

// Compares the graphs in model.json. Layers with the same operation, attributes and shapes are the same, whatever their
// names. Between those, layers of the same operation are paired in order. kCorrupt if a graph is invalid.
std::vector<LayerChange> diff_graphs(const Json& before, const Json& after);

struct MetricChange {
  std::string where, name;  // "data/fashion@v1 test", "accuracy"; where is "" for the run's own metrics
  std::optional<double> before, after;
};

struct ModelDiff {
  std::vector<ValueChange> parameters;  // of model.json: config, precision, labels, preprocessing
  std::vector<ValueChange> training;    // of the runs that made the two, if both are known
  std::vector<LayerChange> layers;
  std::vector<MetricChange> metrics;  // all known metrics of either, equal or not
};

// kCorrupt if a model.json is invalid; kNotFound if it is not in this repository.
ModelDiff diff_models(registry::Repository& repository, const registry::Version& before,
                      const registry::Version& after);

}  // namespace mlx::diff
