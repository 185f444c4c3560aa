// Which precision and numerics a training is made in (config.h).

#include "base/error.h"
#include "train/config.h"

namespace mlx::train {

void set_precision(TrainConfig& config, const std::string& word) {
  config.precision = word;
  config.precision_place = "--precision";
  config.options += " --precision " + word;
}

void set_numerics(TrainConfig& config, const std::string& word) {
  config.portable = word == "portable";
  config.options += " --numerics " + word;
}

graph::Precision precision_of(const TrainConfig& config, const data::Description& data, kernels::Level level) {
  if (config.precision == "f32") return graph::Precision::kF32;
  if (config.portable && config.precision == "bf16") {
    throw Error(ErrorKind::kUsage, fmt::format("{}: bf16: portable numerics are f32", config.precision_place),
                "train with native numerics, or in f32");
  }
  const std::string problem = kernels::bf16_problem(level);
  if (config.precision == "bf16") {
    if (problem.empty()) return graph::Precision::kBF16;
    throw Error(ErrorKind::kMissing, fmt::format("{}: bf16: {}", config.precision_place, problem),
                "precision = \"f32\" trains anywhere; \"auto\" takes bf16 only where it is there");
  }
  const bool fine = problem.empty() && data.targets != data::TargetKind::kNumbers;
  return fine ? graph::Precision::kBF16 : graph::Precision::kF32;
}

}  // namespace mlx::train
