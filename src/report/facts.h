// The facts of a report, gathered from the repository before anything is drawn. Used by report.cpp and the sections.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "registry/versions/lineage.h"
#include "registry/versions/runs.h"
#include "train/evaluate/evaluate.h"

namespace mlx::report {

struct Evaluated {
  train::Evaluation evaluation;
  std::string dataset;  // "data/fashion@v1"
};

// What quantization on calibration data cost, on held-out text (mlx-quantize(1)).
struct QuantizationLoss {
  std::string dataset, split;
  std::int64_t tokens = 0;
  double perplexity_before = 0, perplexity = 0, kl_divergence = 0, top1_agreement = 0;
};

struct ModelFacts {
  registry::Version version;
  std::string family, precision;  // "cnn", "int8"
  std::int64_t height = 0, width = 0, channels = 0;
  std::size_t classes = 0;
  std::vector<Evaluated> evaluations;        // newest first, one for each dataset and split
  const Evaluated* main_evaluation() const;  // of split "test" if there is one; null if there is none
  std::optional<QuantizationLoss> loss;      // the newest
};

using Points = std::vector<std::pair<double, double>>;  // x: epoch or step

struct Facts {
  ModelFacts model;                         // what the report is about
  std::optional<ModelFacts> before, after;  // a pair of f32 and quantized version that `model` belongs to
  std::optional<registry::Run> training;    // of `model`, or of the model that it was quantized from
  std::vector<registry::Run> runs;          // that led to `model`, oldest first
  std::map<std::string, Points> metrics;    // of the training run, by name
  double steps_per_epoch = 0;               // 0 if unknown: then x is steps
  registry::Lineage lineage;
};

Facts gather(registry::Repository& repository, const std::string& reference);

}  // namespace mlx::report
