// Splits of a training: read, held out, measured.

#include "train/training_data.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace mlx::train {
namespace {

constexpr std::uint64_t kHoldOutEpoch = ~std::uint64_t{0};  // an epoch number that no training reaches

[[noreturn]] void refuse_hold_out(const TrainConfig& config, std::int64_t count, const char* unit) {
  const std::string wanted =
      config.valid_share > 0 ? fmt::format("{}", config.valid_share) : std::to_string(config.valid_count);
  fail(ErrorKind::kUsage, "{}: [data] hold_out = {} leaves nothing of the {} {} of split '{}'", config.file, wanted,
       count, unit, config.train_split);
}

std::int64_t held_out(const TrainConfig& config, std::int64_t count) {
  return config.valid_share > 0 ? std::llround(config.valid_share * static_cast<double>(count)) : config.valid_count;
}

void hold_out_text(const TrainConfig& config, TrainingData& data) {
  const std::int64_t bytes = byte_count(data.train.text);
  auto [rest, end] = split_end(data.train.text, held_out(config, bytes));
  if (rest.tokens.empty() || end.tokens.empty()) refuse_hold_out(config, bytes, "bytes");
  data.train = data::as_split(std::move(rest));
  data.valid = data::as_split(std::move(end));
}

void hold_out(const TrainConfig& config, TrainingData& data) {
  if (data.train.about.kind == data::Kind::kTokens) return hold_out_text(config, data);
  const data::Split all = std::move(data.train);
  const std::int64_t count = all.about.count, wanted = held_out(config, count);
  if (wanted >= count || wanted == 0) refuse_hold_out(config, count, "examples");
  std::vector<std::int64_t> order = data::shuffled(count, config.seed, kHoldOutEpoch);
  const auto cut = order.begin() + wanted;
  std::sort(order.begin(), cut);
  std::sort(cut, order.end());
  data.valid = data::pick(all, {order.begin(), cut});
  data.train = data::pick(all, {cut, order.end()});
}

void check_same_kind(const TrainConfig& config, const TrainingData& data) {
  if (data.train.about.kind == data.valid.about.kind) return;
  fail(ErrorKind::kUsage, "{}: [data] valid: split '{}' holds {}, split '{}' {}", config.file, config.valid_split,
       data::unit_name(data.valid.about.kind), config.train_split, data::unit_name(data.train.about.kind));
}

// Checked before the first epoch, not at its end.
void check_labels(const TrainConfig& config, const TrainingData& data) {
  const std::vector<std::int32_t>& labels = data.valid.images.labels;
  const auto highest = std::ranges::max_element(labels);
  if (highest == labels.end() || *highest < data.train.about.outputs) return;
  throw Error(
      ErrorKind::kUsage,
      fmt::format("{}: [data] valid: example {} of split '{}' has label {}, split '{}' has {} classes", config.file,
                  highest - labels.begin(), config.valid_split, *highest, config.train_split, data.train.about.outputs),
      "name all classes in the dataset's dataset.toml (mlx-format-dataset(5)), or mend the labels");
}

// Computes the preprocessing from the training examples.
void measure(TrainingData& data, const data::RowSchema* base) {
  const data::Description& about = data.train.about;
  switch (about.kind) {
    case data::Kind::kImages:
      data.preprocessing = {about.height, about.width, about.channels, data::measure(data.train.images), {}};
      break;
    case data::Kind::kFeatures:
      data::measure(data.train.rows, base);
      data.preprocessing.rows = data.train.rows.schema;
      break;
    case data::Kind::kTokens:
      break;
  }
}

}  // namespace

std::int64_t training_examples(const store::Store& store, const Digest& dataset, const TrainConfig& config,
                               const data::Description& about, std::int64_t context) {
  if (about.kind != data::Kind::kTokens) return about.count - held_out(config, about.count);
  const double left = 1 - config.valid_share;
  const auto enough = static_cast<std::int64_t>(
      (static_cast<double>((kEnoughExamples + 3) * context) + static_cast<double>(config.valid_count)) / left);
  const std::int64_t tokens = data::count_tokens(store, dataset, config.train_split, config.reading, enough);
  return (tokens - held_out(config, tokens)) / std::max<std::int64_t>(1, context) - 2;
}

TrainingData make_training_data(const TrainConfig& config, data::Split train, std::optional<data::Split> valid) {
  TrainingData out;
  out.train = std::move(train);
  if (valid) {
    out.valid = std::move(*valid);
    check_same_kind(config, out);
    check_labels(config, out);
  } else if (config.valid_count > 0 || config.valid_share > 0) {
    hold_out(config, out);
  }
  const bool text = out.train.about.kind == data::Kind::kTokens;
  if (!text && config.batch > out.train.about.count) {
    fail(ErrorKind::kUsage, "{}: [train] batch = {} is larger than the {} training examples", config.file, config.batch,
         out.train.about.count);
  }
  measure(out, config.reading.base.get());
  return out;
}

TrainingData load_training_data(const store::Store& store, const Digest& dataset, const TrainConfig& config,
                                Progress& progress) {
  data::Split train = data::load(store, dataset, config.train_split, config.reading, progress);
  if (config.valid_split.empty()) return make_training_data(config, std::move(train), std::nullopt);
  data::Reading reading = config.reading;
  reading.schema = std::make_shared<data::RowSchema>(train.rows.schema);
  reading.known_tokenizer = train.text.tokenizer;
  data::Split valid = data::load(store, dataset, config.valid_split, reading, progress);
  return make_training_data(config, std::move(train), std::move(valid));
}

}  // namespace mlx::train
