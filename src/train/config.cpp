// Reads train.toml. Every bound and default of a training is here.
#include "train/config.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "train/optimizer_config.h"

namespace mlx::train {
namespace {

constexpr std::int64_t kDefaultBatch = 128;
constexpr std::int64_t kMaxCount = std::int64_t{1} << 40;

// A count, or a share of the whole.
void read_hold_out(TomlReader& table, TrainConfig& config) {
  const double value = table.number("hold_out", 0, static_cast<double>(kMaxCount), 0);
  if (value > 0 && value < 1) {
    config.valid_share = value;
  } else if (value != std::floor(value)) {
    table.fail_at("hold_out", "expected a count, or a share below 1");
  } else {
    config.valid_count = static_cast<std::int64_t>(value);
  }
  if (table.has("valid") && table.has("hold_out"))
    table.fail_at("hold_out", "either a split for validation (valid) or a count held out of the train split, not both");
}

// In the order of data::Missing and data::ColumnKind.
constexpr std::array kMissing = {"auto", "error", "mean", "indicator"};
constexpr std::array kColumnKinds = {"number", "category", "ignore"};

template <std::size_t kCount>
std::vector<std::string> words(const std::array<const char*, kCount>& from) {
  return {from.begin(), from.end()};
}
template <std::size_t kCount>
std::size_t index_of(const std::array<const char*, kCount>& words, const std::string& word) {
  return static_cast<std::size_t>(std::ranges::find(words, word) - words.begin());
}

// Reads the options for rows and text; whether the dataset is of such a kind is known later.
void read_reading(TomlReader& table, TrainConfig& config) {
  const auto place = [&](const char* key) { return fmt::format("{}: [data] {}", table.place(key), key); };
  data::RowOptions& rows = config.reading.rows;
  rows.target_place = place("target");
  rows.features_place = place("features");
  rows.list = table.is_array("target");
  if (rows.list) {
    rows.targets = table.strings("target");
    if (rows.targets.empty()) table.fail_at("target", "expected at least one column");
  } else if (table.has("target")) {
    rows.targets = {table.string("target")};
  } else {
    (void)table.string("target", "");
  }
  rows.features = table.strings("features", std::vector<std::string>{});
  if (table.has("features") && rows.features.empty()) table.fail_at("features", "expected at least one column");
  rows.missing = static_cast<data::Missing>(index_of(kMissing, table.one_of("missing", words(kMissing), "auto")));
  rows.columns_place = fmt::format("{}: [data.columns]", table.place("columns"));
  TomlReader columns = table.table("columns");
  for (const std::string& name : columns.keys()) {
    const std::string kind = columns.one_of(name, words(kColumnKinds));
    rows.columns[name] = static_cast<data::ColumnKind>(index_of(kColumnKinds, kind));
  }
  config.reading.tokenizer = table.one_of("tokenizer", {"bytes", "chars"}, "bytes");
}

void read_data(TomlReader table, TrainConfig& config) {
  config.dataset = table.string("dataset");
  config.train_split = table.string("train", "train");
  config.valid_split = table.string("valid", "");
  read_hold_out(table, config);
  read_reading(table, config);
  TomlReader augment = table.table("augment");
  config.augment.shift = static_cast<int>(augment.integer("shift", 0, 64, 0));
  config.augment.flip = augment.boolean("flip", false);
  config.augment.erase = static_cast<int>(augment.integer("erase", 0, 1024, 0));
  config.augment.mixup = augment.number("mixup", 0, 4, 0);
  if (config.augment.mixup > 0 && config.augment.mixup < 0.05)
    augment.fail_at("mixup", "expected 0, or a number from 0.05 to 4");
  augment.finish();
  table.finish();
}

// `kind`: that of the data, or a guess.
void read_train(TomlReader table, TrainConfig& config, data::Kind kind) {
  config.guessed = kind;
  config.epochs = table.integer("epochs", 1, 1000000);
  config.batch_given = table.has("batch");
  config.batch = table.integer("batch", 1, 1 << 20, kDefaultBatch);
  config.seed = static_cast<std::uint64_t>(table.integer("seed", 0, std::numeric_limits<std::int64_t>::max(), 1));
  config.optimizer_given = table.has("optimizer");
  config.optimizer = read_optimizer(table, kind == data::Kind::kImages ? "sgd" : "adamw");
  config.schedule = read_schedule(table, default_learning_rate(config.optimizer), config.epochs);
  config.label_smoothing = static_cast<float>(table.number("label_smoothing", 0, 0.99, 0));
  config.optimizer.clip = static_cast<float>(table.number("clip", 0, 1e9, 0));
  config.accumulate = table.integer("accumulate", 1, config.batch_given ? config.batch : kDefaultBatch, 1);
  if (!config.batch_given) config.batch -= config.batch % config.accumulate;
  if (config.batch % config.accumulate != 0) {
    table.fail_at("accumulate", fmt::format("{} micro-batches of equal size do not make a batch of {}",
                                            config.accumulate, config.batch));
  }
  config.optimizer.accumulate = config.accumulate > 1;
  config.ema = table.number("ema", 0, 0.999999, 0);
  config.optimizer.average = config.ema > 0;
  config.selection =
      read_selection(table, !config.valid_split.empty() || config.valid_count > 0 || config.valid_share > 0);
  config.keep_state = table.boolean("keep_state", true);
  config.checkpoint_every = read_checkpoint_interval(table, *config.train);
  config.loss =
      table.has("loss") ? table.one_of("loss", {"softmax", "binary", "mse", "huber"}) : table.string("loss", "");
  if (table.has("huber_delta") && config.loss != "huber") table.fail_at("huber_delta", "it is for loss = \"huber\"");
  config.huber_delta = table.number("huber_delta", 1e-6, 1e6, 1);
  config.precision = table.one_of("precision", precision_words(), "");
  config.precision_place = fmt::format("{}: [train] precision", table.place("precision"));
  if (config.label_smoothing > 0 && (config.loss == "mse" || config.loss == "huber"))
    table.fail_at("label_smoothing", "it is for classes and labels");
  config.portable = table.one_of("numerics", {"native", "portable"}, "native") == "portable";
  config.reading.rows.loss = config.loss;
  table.finish();
}

// A model's name becomes a file name, and occurs in URLs and references.
void check_name(const TomlReader& model, const std::string& name) {
  for (char c : name) {
    const bool fits =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
    if (!fits) model.fail_at("name", "expected letters, digits, '_', '-' and '.' only, got \"" + name + "\"");
  }
  if (name.empty() || name[0] == '.' || name[0] == '-')
    model.fail_at("name", "expected a name that starts with a letter or digit");
}

// Adds only what is not the default, so that keys of earlier trainings stay the same.
void add_reading(const TrainConfig& config, Json& data) {
  const data::RowOptions& rows = config.reading.rows;
  if (config.valid_share > 0) data["hold_out"] = config.valid_share;
  if (config.augment.mixup > 0) data["augment"]["mixup"] = config.augment.mixup;
  if (rows.list) {
    data["target"] = rows.targets;
  } else if (!rows.targets.empty()) {
    data["target"] = rows.targets[0];
  }
  if (!rows.features.empty()) data["features"] = rows.features;
  if (rows.missing != data::Missing::kAuto) data["missing"] = kMissing[static_cast<std::size_t>(rows.missing)];
  for (const auto& [name, kind] : rows.columns) data["columns"][name] = kColumnKinds[static_cast<std::size_t>(kind)];
  if (config.reading.tokenizer != "bytes") data["tokenizer"] = config.reading.tokenizer;
}

const TomlNode* member(const TomlNode& table, std::string_view key) {
  for (const auto& [name, node] : table.members)
    if (name == key) return &node;
  return nullptr;
}

// Only rows have targets, and families over tokens imply text. If training starts from a model, nothing is known yet.
data::Kind guess_kind(const TrainConfig& config) {
  if (!config.reading.rows.targets.empty()) return data::Kind::kFeatures;
  const TomlNode* const family = member(*config.model, "family");
  return family && nn::takes_text(family->text) ? data::Kind::kTokens : data::Kind::kImages;
}

}  // namespace

TrainConfig read_train_config(const std::string& file, const std::vector<std::string>& sets) {
  TomlNode root = parse_toml(read_text(file), file);
  for (const std::string& set : sets) set_toml(root, set, "--set");
  TomlReader top(root, file, "");
  TrainConfig config;
  config.file = file;
  read_data(top.table("data", true), config);
  TomlReader model = top.table("model", true);
  config.name = model.string("name");
  check_name(model, config.name);
  config.init = model.string("init", "");
  if (model.has("init") && config.init.empty()) model.fail_at("init", "expected a model, like \"clf@v3\"");
  config.model = std::make_shared<TomlNode>(*member(root, "model"));
  TomlReader train = top.table("train", true);
  config.train = std::make_shared<TomlNode>(*member(root, "train"));
  top.finish();
  read_train(std::move(train), config, guess_kind(config));
  return config;
}

void settle(TrainConfig& config, data::Kind kind, std::int64_t examples) {
  if (kind != config.guessed && !config.optimizer_given) {
    TrainConfig again = config;
    read_train(TomlReader(*config.train, config.file, "[train]"), again, kind);
    again.precision = config.precision;  // these may come from the command line
    again.precision_place = config.precision_place;
    again.portable = config.portable;
    config = std::move(again);
  }
  if (config.batch_given) return;
  std::int64_t batch = kDefaultBatch;
  while (batch > 1 && batch * (kEnoughExamples / kDefaultBatch) > examples) batch /= 2;
  config.batch = std::max(config.accumulate, batch - batch % config.accumulate);
}

std::string resolved(const TrainConfig& config, const nn::Built& built) {
  Json data = {
      {"augment", {{"erase", config.augment.erase}, {"flip", config.augment.flip}, {"shift", config.augment.shift}}},
      {"hold_out", config.valid_count},
      {"train", config.train_split},
      {"valid", config.valid_split}};
  add_reading(config, data);
  Json train = {{"batch", config.batch},
                {"epochs", config.epochs},
                {"label_smoothing", shortest(config.label_smoothing)},
                {"optimizer", optimizer_to_json(config.optimizer)},
                {"seed", config.seed}};
  write_schedule(config.schedule, train);
  if (config.optimizer.clip > 0) train["clip"] = shortest(config.optimizer.clip);
  if (config.accumulate > 1) train["accumulate"] = config.accumulate;
  if (config.ema > 0) train["ema"] = config.ema;
  write_selection(config.selection, train);
  if (config.portable) train["numerics"] = "portable";
  if (!config.loss.empty()) train["loss"] = config.loss;
  if (config.loss == "huber") train["huber_delta"] = config.huber_delta;
  if (config.precision != "f32") train["precision"] = config.precision;
  return canonical(
      {{"data", data},
       {"model",
        {{"config", parse_json(built.config, "model config")}, {"family", built.family}, {"name", config.name}}},
       {"train", train}});
}

graph::LossSpec loss_spec(const TrainConfig& config, data::TargetKind targets) {
  const bool several = targets == data::TargetKind::kLabels, numbers = targets == data::TargetKind::kNumbers;
  graph::LossSpec spec;
  spec.name = several ? "binary" : numbers ? "mse" : "softmax";
  const bool fits = config.loss.empty() || config.loss == spec.name || (numbers && config.loss == "huber");
  if (!fits) {
    fail(ErrorKind::kUsage, "{}: [train] loss = \"{}\" is not for targets that are {}", config.file, config.loss,
         numbers                               ? "numbers"
         : several                             ? "labels"
         : targets == data::TargetKind::kClass ? "classes"
                                               : "tokens");
  }
  if (!config.loss.empty()) spec.name = config.loss;
  if (numbers && config.label_smoothing > 0)
    fail(ErrorKind::kUsage, "{}: [train] label_smoothing is for classes and labels, the targets are numbers",
         config.file);
  if (config.augment.mixup > 0 && spec.name == "softmax") spec.name = "soft";
  spec.label_smoothing = config.label_smoothing;
  spec.delta = static_cast<float>(config.huber_delta);
  return spec;
}

}  // namespace mlx::train
