// Evaluation of a model on a labelled split: loss, accuracy, confusion matrix, per-class precision and recall, speed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "data/split.h"
#include "kernels/table.h"
#include "nn/model.h"
#include "registry/runs.h"

namespace mlx::train {

struct Evaluation {
  std::string split;
  Digest data;
  std::int64_t count = 0, correct = 0;
  double loss = 0;
  std::vector<std::string> labels;
  std::vector<std::vector<std::int64_t>> confusion;  // [truth][predicted]
  double images_per_second = 0;                      // without the first, warm-up batch
  double accuracy() const { return count ? static_cast<double>(correct) / static_cast<double>(count) : 0; }
};

struct ClassFigures {
  double precision = 0, recall = 0, f1 = 0;  // 0 where they are not defined
  std::int64_t support = 0;
};
ClassFigures class_figures(const Evaluation& evaluation, std::size_t index);

Evaluation evaluate(const nn::Model& model, const data::Split& split, kernels::Level level, Pool& pool,
                    Progress& progress);
Json to_json(const Evaluation& evaluation);  // with precision, recall, f1 of each class
Evaluation evaluation_from_json(const Json& json);

// The same through the repository: answers from the run's key where known, attaches the result to the version.
struct EvaluateOutcome {
  bool unchanged = false;
  Evaluation evaluation;
  registry::Version model;
};
EvaluateOutcome evaluate_version(registry::Repository& repository, const std::string& model, const std::string& dataset,
                                 const std::string& split, bool force, const std::string& title, kernels::Level level,
                                 Progress& progress);

}  // namespace mlx::train
