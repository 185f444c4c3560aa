// Splits of a training: read, held out, measured.

#include "train/loop/training_data.h"

#include <utility>

#include "base/error.h"
#include "train/loop/leaks.h"

namespace mlx::train {
namespace {

void hold_out(const TrainConfig& config, TrainingData& data) {
  const data::HoldOut& wanted = config.hold_out;
  const std::int64_t whole = data.train->hold_out_size(), size = wanted.of(whole);
  auto [rest, held_out] = data.train->hold_out(size, config.seed);
  if (rest->describe().count == 0 || held_out->describe().count == 0) {
    fail(ErrorKind::kUsage, "{}: [data] hold_out = {} leaves nothing of the {} {} of split '{}'", config.file,
         wanted.share > 0 ? fmt::format("{}", wanted.share) : std::to_string(wanted.count), whole,
         data.train->describe().kind->hold_out_counts, config.train_split);
  }
  data.train = std::move(rest);
  data.valid = std::move(held_out);
}

void check_same_kind(const TrainConfig& config, const data::Description& train, const data::Description& valid) {
  if (train.kind == valid.kind) return;
  fail(ErrorKind::kUsage, "{}: [data] valid: split '{}' holds {}, split '{}' {}", config.file, config.valid_split,
       valid.kind->unit, config.train_split, train.kind->unit);
}

// Checked before the first epoch, not at its end.
void check_labels(const TrainConfig& config, const data::Description& train, const data::Dataset& valid) {
  const std::optional<data::LabelAt> highest = valid.highest_label();
  if (!highest || highest->label < train.outputs) return;
  throw Error(
      ErrorKind::kUsage,
      fmt::format("{}: [data] valid: example {} of split '{}' has label {}, split '{}' has {} classes", config.file,
                  highest->index, config.valid_split, highest->label, config.train_split, train.outputs),
      "name all classes in the dataset's dataset.toml (mlx-format-dataset(5)), or mend the labels");
}

void check_valid(const TrainConfig& config, const data::Dataset& train, const data::Dataset& valid) {
  check_same_kind(config, train.describe(), valid.describe());
  check_labels(config, train.describe(), valid);
}

}  // namespace

TrainingData make_training_data(const TrainConfig& config, data::DatasetPtr train, data::DatasetPtr valid) {
  TrainingData out{std::move(train), std::move(valid), {}};
  if (out.valid) {
    check_valid(config, *out.train, *out.valid);
  } else if (config.hold_out.wanted()) {
    hold_out(config, out);
  }
  out.preprocessing = out.train->measure(config.reading.base.get());
  return out;
}

TrainingData load_training_data(const store::Store& store, const Digest& dataset, const TrainConfig& config,
                                Progress& progress) {
  check_listed_leaks(store, dataset, config);
  data::Reading reading = config.reading;
  reading.looks = looks_for_near(config);
  data::DatasetPtr train = data::load(store, dataset, config.train_split, reading, progress);
  check_test_leaks(store, dataset, config, *train);
  if (config.valid_split.empty()) return make_training_data(config, std::move(train), nullptr);
  TrainingData out;
  out.preprocessing = train->measure(config.reading.base.get());
  reading.fitted = std::make_shared<data::Preprocessing>(out.preprocessing);
  reading.classes = train->describe().names;
  out.valid = data::load(store, dataset, config.valid_split, reading, progress);
  out.train = std::move(train);
  check_valid(config, *out.train, *out.valid);
  out.near_leaks = check_leaks(config, *out.train, *out.valid, progress);
  return out;
}

TrainingData load_training_split(const store::Store& store, const Digest& dataset, const TrainConfig& config,
                                 Progress& progress) {
  data::DatasetPtr train = data::load(store, dataset, config.train_split, config.reading, progress);
  TrainingData out;
  if (config.valid_split.empty())
    out = make_training_data(config, std::move(train), nullptr);
  else
    out = {train, nullptr, train->measure(config.reading.base.get())};
  out.valid = nullptr;
  return out;
}

data::BatchOptions batch_options(const TrainConfig& config, std::int64_t context, bool raw) {
  data::BatchOptions options;
  options.raw = raw;
  options.context = context;
  options.batch = config.batch;
  options.seed = config.seed;
  options.shuffle = options.drop_last = true;
  options.shuffle_buffer = config.shuffle_buffer;
  options.augment = config.reading.augment;
  return options;
}

}  // namespace mlx::train
