// One row for each optimizer; graph/passes/optimizers.cpp implements them.
#include "train/config/optimizer_config.h"

#include <charconv>

#include "base/error.h"
#include "base/json.h"

namespace mlx::train {
namespace {

struct OptimizerRow {
  const char* name;
  double learning_rate;
  double momentum;  // default; negative: has none
  double beta2;     // the same; beta1 is 0.9
  bool epsilon;
};
constexpr double kNo = -1;
constexpr OptimizerRow kOptimizers[] = {
    {"sgd", 0.05, 0.9, kNo, false},
    {"adamw", 1e-3, kNo, 0.999, true},
    {"lion", 1e-4, kNo, 0.99, false},
    {"muon", 1e-3, 0.95, 0.999, true},  // betas and epsilon are those of the AdamW for everything but hidden matrices
};

const OptimizerRow& optimizer_row(const std::string& name) {
  for (const OptimizerRow& row : kOptimizers) {
    if (name == row.name) return row;
  }
  fail(ErrorKind::kUsage, "unknown optimizer '{}'", name);
}

}  // namespace

graph::OptimizerSpec read_optimizer(TomlReader& train, const std::string& fallback) {
  graph::OptimizerSpec out;
  out.name = train.one_of("optimizer", graph::optimizer_names(), fallback);
  const OptimizerRow& row = optimizer_row(out.name);
  if (row.momentum >= 0) {
    out.momentum = static_cast<float>(train.number("momentum", 0, 0.9999, row.momentum));
    out.nesterov = train.boolean("nesterov", true);
  }
  if (row.beta2 >= 0) {
    out.beta1 = static_cast<float>(train.number("beta1", 0, 0.9999, 0.9));
    out.beta2 = static_cast<float>(train.number("beta2", 0, 0.999999, row.beta2));
  }
  if (row.epsilon) out.epsilon = static_cast<float>(train.number("epsilon", 0, 1, 1e-8));
  out.weight_decay = static_cast<float>(train.number("weight_decay", 0, 10, 0));
  return out;
}

double shortest(float value) {
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof text, value);
  double wide = value;
  if (error == std::errc()) std::from_chars(text, end, wide);
  return wide;
}

Json optimizer_to_json(const graph::OptimizerSpec& optimizer) {
  const OptimizerRow& row = optimizer_row(optimizer.name);
  Json out = {{"name", optimizer.name}, {"weight_decay", shortest(optimizer.weight_decay)}};
  if (row.momentum >= 0) {
    out["momentum"] = shortest(optimizer.momentum);
    out["nesterov"] = optimizer.nesterov;
  }
  if (row.beta2 >= 0) {
    out["beta1"] = shortest(optimizer.beta1);
    out["beta2"] = shortest(optimizer.beta2);
  }
  if (row.epsilon) out["epsilon"] = shortest(optimizer.epsilon);
  return out;
}

double default_learning_rate(const graph::OptimizerSpec& optimizer) {
  return optimizer_row(optimizer.name).learning_rate;
}

}  // namespace mlx::train
