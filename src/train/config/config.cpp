// Reads train.toml. Every bound and default of a training is here.
#include "train/config/config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/path.h"
#include "train/config/optimizer_config.h"

namespace mlx::train {
namespace {

constexpr std::int64_t kDefaultBatch = 128;
constexpr std::int64_t kMostParts = 1024;  // of a model
constexpr std::int64_t kMaxCount = std::int64_t{1} << 40;

// A count, or a share of the whole.
void read_hold_out(TomlReader& table, TrainConfig& config) {
  const double value = table.number("hold_out", 0, static_cast<double>(kMaxCount), 0);
  if (value > 0 && value < 1) {
    config.hold_out.share = value;
  } else if (value != std::floor(value)) {
    table.fail_at("hold_out", "expected a count, or a share below 1");
  } else {
    config.hold_out.count = static_cast<std::int64_t>(value);
  }
  if (table.has("valid") && table.has("hold_out"))
    table.fail_at("hold_out", "either a split for validation (valid) or a count held out of the train split, not both");
}

// "1%".
double read_share(TomlReader& table, const char* key, const char* by_default) {
  const std::string text = table.string(key, by_default);
  double percent = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), percent);
  const bool good =
      error == std::errc() && std::string_view(end, static_cast<std::size_t>(text.data() + text.size() - end)) == "%";
  if (!good || !(percent >= 0 && percent <= 100))
    table.fail_at(key, "expected a share such as \"1%\"; \"100%\" allows all");
  return percent / 100;
}

void read_data(TomlReader table, TrainConfig& config) {
  config.dataset = table.string("dataset");
  config.train_split = table.string("train", "train");
  config.valid_split = table.string("valid", "");
  if (table.has("split")) config.reading.division = data::Division{data::read_split_rule(table.table("split"))};
  config.leaks = read_share(table, "leaks", "1%");
  if (table.has("near_leaks")) config.near_leaks = read_share(table, "near_leaks", "");
  read_hold_out(table, config);
  config.shuffle_buffer = table.integer("shuffle_buffer", 1, std::numeric_limits<std::int64_t>::max(), 0);
  for (const data::Kind* kind : data::kinds())
    if (kind->read_keys) kind->read_keys(table, config.reading);
  table.finish();
}

// `kind`: that of the data, or a guess.
void read_train(TomlReader table, TrainConfig& config, const data::Kind& kind) {
  config.guessed = &kind;
  config.epochs = table.integer("epochs", 1, 1000000);
  config.batch_given = table.has("batch");
  config.batch = table.integer("batch", 1, 1 << 20, kDefaultBatch);
  config.seed = static_cast<std::uint64_t>(table.integer("seed", 0, std::numeric_limits<std::int64_t>::max(), 1));
  config.optimizer_given = table.has("optimizer");
  config.optimizer = read_optimizer(table, kind.optimizer);
  config.schedule = read_schedule(table, default_learning_rate(config.optimizer), config.epochs);
  config.label_smoothing = static_cast<float>(table.number("label_smoothing", 0, 0.99, 0));
  config.optimizer.clip = static_cast<float>(table.number("clip", 0, 1e9, 0));
  config.accumulate = table.integer("accumulate", 1, config.batch_given ? config.batch : kDefaultBatch, 1);
  config.local_sgd = read_local_sgd(table);
  config.wire = table.one_of("wire", {"f32", "bf16"}, "f32");
  const std::int64_t parts = config.accumulate * config.local_sgd.workers;
  if (!config.batch_given) config.batch = std::max(parts, config.batch - config.batch % parts);
  if (config.local_sgd.workers > 1 && config.batch % parts != 0) {
    table.fail_at("sync_every", fmt::format("{} workers with {} micro-batches each do not share a batch of {} evenly",
                                            config.local_sgd.workers, config.accumulate, config.batch));
  }
  if (config.batch % config.accumulate != 0) {
    table.fail_at("accumulate", fmt::format("{} micro-batches of equal size do not make a batch of {}",
                                            config.accumulate, config.batch));
  }
  config.async = table.integer("async", 0, kMostWaiting, 0);
  config.optimizer.accumulate = config.sums_micro_batches();
  config.tp = table.integer("tp", 1, kMostParts, 1);
  config.zero = table.integer("zero", 0, 1, 0);
  config.pp = table.integer("pp", 1, kMostParts, 1);
  config.balance = table.boolean("balance", false);
  config.synchronised_norms =
      table.one_of("batch_norm", {"micro_batch", "synchronised"}, "micro_batch") != "micro_batch";
  config.ema = table.number("ema", 0, 0.999999, 0);
  config.optimizer.average = config.ema > 0;
  config.selection = read_selection(table, !config.valid_split.empty() || config.hold_out.wanted());
  config.keep_state = table.boolean("keep_state", true);
  config.checkpoint_every = read_checkpoint_interval(table, *config.train);
  config.loss =
      table.has("loss") ? table.one_of("loss", {"softmax", "binary", "mse", "huber"}) : table.string("loss", "");
  if (table.has("huber_delta") && config.loss != "huber")
    table.fail_at("huber_delta", "it is only for loss = \"huber\"");
  config.huber_delta = table.number("huber_delta", 1e-6, 1e6, 1);
  config.precision = table.one_of("precision", precision_words(), "");
  config.precision_place = fmt::format("{}: [train] precision", table.place("precision"));
  if (config.label_smoothing > 0 && (config.loss == "mse" || config.loss == "huber"))
    table.fail_at("label_smoothing", "it is only for classes and labels");
  config.portable = table.one_of("numerics", {"native", "portable"}, "native") == "portable";
  config.reading.loss = config.loss;
  table.finish();
}

DistillConfig read_distill(TomlReader table) {
  DistillConfig out;
  out.teacher = table.string("teacher");
  if (out.teacher.empty()) table.fail_at("teacher", "expected a model, like \"large@v3\"");
  out.temperature = table.number("temperature", 0.1, 100, out.temperature);
  out.share = table.number("share", 0.001, 1, out.share);
  table.finish();
  return out;
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

const TomlNode* member(const TomlNode& table, std::string_view key) {
  for (const auto& [name, node] : table.members)
    if (name == key) return &node;
  return nullptr;
}

// By the keys that only one kind has, else by what the family takes. Nothing is known yet of a model to start from.
const data::Kind& guess_kind(const TrainConfig& config) {
  for (const data::Kind* kind : data::kinds())
    if (kind->key_set && kind->key_set(config.reading)) return *kind;
  const TomlNode* const family = member(*config.model, "family");
  for (const data::Kind* kind : data::kinds())
    if (family && nn::takes(family->text, kind->form)) return *kind;
  return *data::kinds().front();
}

// By data::TargetKind.
struct TargetLoss {
  const char* targets;  // for messages
  const char* loss;     // unless the config names one
};
constexpr TargetLoss kLosses[] = {
    {"classes", "softmax"}, {"labels", "binary"}, {"numbers", "mse"}, {"tokens", "softmax"}};

}  // namespace

TrainConfig read_train_config(const std::string& file, const std::vector<std::string>& sets) {
  return parse_train_config(read_text(file), file, sets);
}

TrainConfig parse_train_config(const std::string& text, const std::string& file, const std::vector<std::string>& sets) {
  TomlNode root = parse_toml(text, file);
  for (const std::string& set : sets) set_toml(root, set, "--set");
  TomlReader top(root, file, "");
  TrainConfig config;
  config.source = {file, text, sets};
  config.file = file;
  config.reading.folder = parent_path(file);
  read_data(top.table("data", true), config);
  TomlReader model = top.table("model", true);
  config.name = model.string("name");
  check_name(model, config.name);
  config.init = model.string("init", "");
  if (model.has("init") && config.init.empty()) model.fail_at("init", "expected a model, like \"clf@v3\"");
  config.model = std::make_shared<TomlNode>(*member(root, "model"));
  if (const TomlNode* const family = member(*config.model, "family")) {
    for (const data::Kind* kind : data::kinds())
      if (nn::takes(family->text, kind->form)) config.reading.taken.push_back(kind);
  }
  if (top.has("distill")) config.distill = read_distill(top.table("distill"));
  TomlReader train = top.table("train", true);
  config.train = std::make_shared<TomlNode>(*member(root, "train"));
  top.finish();
  read_train(std::move(train), config, guess_kind(config));
  return config;
}

std::string division_text(const TrainConfig& config) {
  std::string out = config.tp > 1 ? fmt::format("tp = {}", config.tp) : "";
  if (config.pp > 1) out += fmt::format("{}pp = {}", out.empty() ? "" : ", ", config.pp);
  return out;
}

void check_ranks(const TrainConfig& config, std::int64_t ranks) {
  const std::int64_t each = config.ranks_of_model();
  if (ranks % each == 0) return;
  const bool both = config.tp > 1 && config.pp > 1;
  throw Error(ErrorKind::kUsage,
              fmt::format("{}: [train] {}: the number of ranks, {}, is no multiple of {}", config.file,
                          division_text(config), ranks, both ? fmt::format("their product, {}", each) : "it"),
              fmt::format("--ranks {}, or {}", (ranks + each - 1) / each * each,
                          both            ? "another --tp and --pp"
                          : config.tp > 1 ? "--tp 1"
                                          : "--pp 1"));
}

void settle(TrainConfig& config, const data::Kind& kind, std::int64_t examples) {
  if (&kind != config.guessed && !config.optimizer_given) {
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
  const std::int64_t parts = config.accumulate * config.local_sgd.workers;
  config.batch = std::max(parts, batch - batch % parts);
}

std::string resolved(const TrainConfig& config, const nn::Built& built) {
  const data::HoldOut& held = config.hold_out;
  Json data = {{"hold_out", held.share > 0 ? Json(held.share) : Json(held.count)},
               {"train", config.train_split},
               {"valid", config.valid_split}};
  if (config.shuffle_buffer > 0) data["shuffle_buffer"] = config.shuffle_buffer;
  if (config.reading.division) data["split"] = to_json(config.reading.division->rule);
  for (const data::Kind* kind : data::kinds())
    if (kind->write_keys) kind->write_keys(config.reading, data);
  Json train = {{"batch", config.batch},
                {"epochs", config.epochs},
                {"label_smoothing", shortest(config.label_smoothing)},
                {"optimizer", optimizer_to_json(config.optimizer)},
                {"seed", config.seed}};
  write_schedule(config.schedule, train);
  if (config.optimizer.clip > 0) train["clip"] = shortest(config.optimizer.clip);
  if (config.accumulate > 1) train["accumulate"] = config.accumulate;
  write_local_sgd(config.local_sgd, train);
  if (config.wire != "f32") train["wire"] = config.wire;
  if (config.async > 0) train["async"] = config.async;
  if (config.tp > 1) train["tp"] = config.tp;
  if (config.synchronised_norms) train["batch_norm"] = "synchronised";
  if (config.ema > 0) train["ema"] = config.ema;
  write_selection(config.selection, train);
  if (config.portable) train["numerics"] = "portable";
  if (!config.loss.empty()) train["loss"] = config.loss;
  if (config.loss == "huber") train["huber_delta"] = config.huber_delta;
  if (config.precision != "f32") train["precision"] = config.precision;
  Json out = {{"data", data},
              {"model",
               {{"config", parse_json(built.config, "model config")}, {"family", built.family}, {"name", config.name}}},
              {"train", train}};
  if (config.distill.wanted())
    out["distill"] = {{"share", config.distill.share}, {"temperature", config.distill.temperature}};
  return canonical(out);
}

graph::LossSpec loss_spec(const TrainConfig& config, data::TargetKind targets) {
  const bool numbers = targets == data::TargetKind::kNumbers;
  const TargetLoss& usual = kLosses[static_cast<std::size_t>(targets)];
  graph::LossSpec spec;
  spec.name = usual.loss;
  const bool fits = config.loss.empty() || config.loss == spec.name || (numbers && config.loss == "huber");
  if (!fits) {
    fail(ErrorKind::kUsage, "{}: [train] loss = \"{}\" does not fit targets that are {}", config.file, config.loss,
         usual.targets);
  }
  if (!config.loss.empty()) spec.name = config.loss;
  if (numbers && config.label_smoothing > 0)
    fail(ErrorKind::kUsage, "{}: [train] label_smoothing is for classes and labels, the targets are numbers",
         config.file);
  if (config.reading.augment.mixup > 0 && spec.name == "softmax") spec.name = "soft";
  spec.label_smoothing = config.label_smoothing;
  spec.delta = static_cast<float>(config.huber_delta);
  if (config.distill.wanted()) {
    if (spec.name != "softmax" && spec.name != "soft")
      fail(ErrorKind::kUsage, "{}: [distill] is for classes and tokens, the targets are {}", config.file,
           usual.targets);
    spec.share = static_cast<float>(config.distill.share);
    spec.temperature = static_cast<float>(config.distill.temperature);
  }
  return spec;
}

}  // namespace mlx::train
