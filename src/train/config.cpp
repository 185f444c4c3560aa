// Reads train.toml; every bound and default of a training stands here.
#include "train/config.h"

#include <limits>

#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "train/optimizer_config.h"

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

void read_train(TomlReader table, TrainConfig& config) {
  config.epochs = table.integer("epochs", 1, 1000000);
  config.batch = table.integer("batch", 1, 1 << 20, 128);
  config.seed = static_cast<std::uint64_t>(table.integer("seed", 0, std::numeric_limits<std::int64_t>::max(), 1));
  config.optimizer = read_optimizer(table);
  config.schedule = read_schedule(table, default_learning_rate(config.optimizer), config.epochs);
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
  const Json data = {
      {"augment", {{"erase", config.augment.erase}, {"flip", config.augment.flip}, {"shift", config.augment.shift}}},
      {"hold_out", config.valid_count},
      {"train", config.train_split},
      {"valid", config.valid_split}};
  Json train = {{"batch", config.batch},
                {"checkpoint_every", config.checkpoint_every},
                {"epochs", config.epochs},
                {"label_smoothing", config.label_smoothing},
                {"optimizer", optimizer_to_json(config.optimizer)},
                {"seed", config.seed}};
  write_schedule(config.schedule, train);
  return canonical(
      {{"data", data},
       {"model",
        {{"config", parse_json(built.config, "model config")}, {"family", built.family}, {"name", config.name}}},
       {"train", train}});
}

}  // namespace mlx::train
