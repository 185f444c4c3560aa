// Reads train.toml; every bound and default of a training stands here.
#include "train/config.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"

namespace mlx::train {
namespace {

constexpr std::int64_t kMaxCount = std::int64_t{1} << 40;

void read_data(TomlReader table, TrainConfig& config) {
  config.dataset = table.string("dataset");
  config.train_split = table.string("train", "train");
  if (table.has("valid") && table.has("hold_out"))
    table.fail_at("hold_out", "either a split for validation (valid) or a count held out of the train split, not both");
  config.valid_split = table.string("valid", "");
  config.valid_count = table.integer("hold_out", 0, kMaxCount, 0);
  TomlReader augment = table.table("augment");
  config.augment.shift = static_cast<int>(augment.integer("shift", 0, 64, 0));
  config.augment.flip = augment.boolean("flip", false);
  config.augment.erase = static_cast<int>(augment.integer("erase", 0, 1024, 0));
  augment.finish();
  table.finish();
}

void read_optimizer(TomlReader& table, TrainConfig& config) {
  graph::OptimizerSpec& optimizer = config.optimizer;
  optimizer.name = table.one_of("optimizer", {"sgd", "adamw"}, "sgd");
  if (optimizer.name == "sgd") {
    optimizer.momentum = static_cast<float>(table.number("momentum", 0, 0.9999, 0.9));
    optimizer.nesterov = table.boolean("nesterov", true);
  } else {
    optimizer.beta1 = static_cast<float>(table.number("beta1", 0, 0.9999, 0.9));
    optimizer.beta2 = static_cast<float>(table.number("beta2", 0, 0.999999, 0.999));
    optimizer.epsilon = static_cast<float>(table.number("epsilon", 0, 1, 1e-8));
  }
  optimizer.weight_decay = static_cast<float>(table.number("weight_decay", 0, 10, 0));
}

void read_train(TomlReader table, TrainConfig& config) {
  config.epochs = table.integer("epochs", 1, 1000000);
  config.batch = table.integer("batch", 1, 1 << 20, 128);
  config.seed = static_cast<std::uint64_t>(table.integer("seed", 0, std::numeric_limits<std::int64_t>::max(), 1));
  read_optimizer(table, config);
  config.learning_rate = table.number("learning_rate", 0, 1000, config.optimizer.name == "sgd" ? 0.05 : 1e-3);
  config.schedule = table.one_of("schedule", {"constant", "cosine"}, "cosine");
  config.warmup = table.number("warmup", 0, static_cast<double>(config.epochs), 0);
  config.label_smoothing = static_cast<float>(table.number("label_smoothing", 0, 0.99, 0));
  config.checkpoint_every = table.number("checkpoint_every", 0.001, 1e9, 1);
  table.finish();
}

// A model's name becomes a file name and stands in URLs and references.
void check_name(const TomlReader& model, const std::string& name) {
  for (char c : name) {
    const bool fits =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
    if (!fits) model.fail_at("name", "expected letters, digits, '_', '-' and '.' only, got \"" + name + "\"");
  }
  if (name.empty() || name[0] == '.' || name[0] == '-')
    model.fail_at("name", "expected a name that starts with a letter or digit");
}

const TomlNode* member(const TomlNode& table, std::string_view key) {
  for (const auto& [name, node] : table.members)
    if (name == key) return &node;
  return nullptr;
}

}  // namespace

TrainConfig read_train_config(const std::string& file) {
  const TomlNode root = parse_toml(read_text(file), file);
  TomlReader top(root, file, "");
  TrainConfig config;
  config.file = file;
  read_data(top.table("data", true), config);
  TomlReader model = top.table("model", true);
  config.name = model.string("name");
  check_name(model, config.name);
  config.model = std::make_shared<TomlNode>(*member(root, "model"));
  read_train(top.table("train", true), config);
  top.finish();
  return config;
}

std::string resolved(const TrainConfig& config, const nn::Built& built) {
  const graph::OptimizerSpec& o = config.optimizer;
  Json optimizer = {{"name", o.name}, {"weight_decay", o.weight_decay}};
  if (o.name == "sgd") {
    optimizer["momentum"] = o.momentum;
    optimizer["nesterov"] = o.nesterov;
  } else {
    optimizer["beta1"] = o.beta1;
    optimizer["beta2"] = o.beta2;
    optimizer["epsilon"] = o.epsilon;
  }
  const Json data = {
      {"augment", {{"erase", config.augment.erase}, {"flip", config.augment.flip}, {"shift", config.augment.shift}}},
      {"hold_out", config.valid_count},
      {"train", config.train_split},
      {"valid", config.valid_split}};
  const Json train = {{"batch", config.batch},
                      {"checkpoint_every", config.checkpoint_every},
                      {"epochs", config.epochs},
                      {"label_smoothing", config.label_smoothing},
                      {"learning_rate", config.learning_rate},
                      {"optimizer", optimizer},
                      {"schedule", config.schedule},
                      {"seed", config.seed},
                      {"warmup", config.warmup}};
  return canonical(
      {{"data", data},
       {"model",
        {{"config", parse_json(built.config, "model config")}, {"family", built.family}, {"name", config.name}}},
       {"train", train}});
}

double learning_rate_at(const TrainConfig& config, std::int64_t step, std::int64_t steps_per_epoch) {
  const double warmup = config.warmup * static_cast<double>(steps_per_epoch);
  const double total = static_cast<double>(config.epochs * steps_per_epoch);
  const double at = static_cast<double>(step);
  if (at < warmup) return config.learning_rate * (at + 1) / (warmup + 1);
  if (config.schedule == "constant") return config.learning_rate;
  const double done = (at - warmup) / std::max(1.0, total - warmup);
  return config.learning_rate * 0.5 * (1 + std::cos(std::numbers::pi * done));
}

}  // namespace mlx::train
