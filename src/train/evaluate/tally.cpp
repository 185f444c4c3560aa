// One tally for each kind of target. Loss and counts are computed example by example in double precision, so that they
// do not depend on how the split is cut into batches.

#include "train/evaluate/tally.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "train/evaluate/metrics.h"

namespace mlx::train {
namespace {

constexpr std::int64_t kMostScores = std::int64_t{1} << 23;  // kept for the AUC; a split with more has none
constexpr std::int64_t kLargestConfusion = 1024;             // classes

std::span<const float> row_of(const float* outputs, std::int64_t row, std::int64_t width) {
  return {outputs + row * width, static_cast<std::size_t>(width)};
}

double mean(double sum, std::int64_t count) {
  return sum / static_cast<double>(std::max<std::int64_t>(1, count));
}

class ClassTally final : public Tally {
 public:
  explicit ClassTally(std::int64_t examples) : examples_(examples) {}

  void add(const data::BatchView& batch, const float* outputs, std::int64_t width) override {
    if (classes_ == 0) start(width);
    const auto* labels = static_cast<const std::int32_t*>(batch.target);
    for (std::int64_t i = 0; i < batch.count; ++i) add_example(row_of(outputs, i, width), labels[i]);
  }

  void finish(Evaluation& out) override {
    out.loss = mean(loss_, count_);
    out.count = count_;
    out.correct = correct_;
    out.confusion = std::move(confusion_);
    out.metric("accuracy", out.accuracy());
    if (classes_ > 5) out.metric("top5_accuracy", mean(static_cast<double>(top5_), count_));
    std::vector<ClassMetrics> classes;
    std::vector<std::uint8_t> occurs;
    for (std::size_t c = 0; c < right_.size(); ++c) {
      classes.push_back(metrics_of(right_[c], found_[c] - right_[c], there_[c] - right_[c]));
      occurs.push_back(found_[c] + there_[c] > 0);
    }
    out.metric("macro_f1", macro_f1(classes, occurs));
    if (!scores_.empty()) out.metric("auc", macro_auc(scores_, truth_, static_cast<std::size_t>(classes_)));
    out.classes = std::move(classes);
  }

 private:
  void start(std::int64_t classes) {
    classes_ = classes;
    const auto n = static_cast<std::size_t>(classes);
    if (classes <= kLargestConfusion) confusion_.assign(n, std::vector<std::int64_t>(n));
    right_.assign(n, 0), found_.assign(n, 0), there_.assign(n, 0);
    keeps_ = examples_ * classes <= kMostScores;
    if (keeps_) scores_.reserve(static_cast<std::size_t>(examples_) * n), truth_.reserve(scores_.capacity());
  }

  void add_example(std::span<const float> scores, std::int32_t label) {
    if (label >= classes_) {
      throw Error(ErrorKind::kUsage, fmt::format("label {} is outside of the model's {} classes", label, classes_),
                  "`mlx show MODEL` lists the classes that it was trained on");
    }
    const auto truth = static_cast<std::size_t>(label);
    const auto predicted = static_cast<std::size_t>(std::ranges::max_element(scores) - scores.begin());
    const double loss = cross_entropy(scores, label);
    loss_ += loss;
    ++count_;
    if (!confusion_.empty()) ++confusion_[truth][predicted];
    ++there_[truth], ++found_[predicted];
    if (truth == predicted) ++correct_, ++right_[truth];
    top5_ += in_top(scores, label, 5);
    if (!keeps_) return;
    // Log-probabilities, because values that are compared between examples must have the same scale.
    const double log_sum = loss + static_cast<double>(scores[truth]);
    for (std::size_t c = 0; c < scores.size(); ++c) {
      scores_.push_back(static_cast<float>(static_cast<double>(scores[c]) - log_sum));
      truth_.push_back(c == truth);
    }
  }

  std::int64_t examples_, classes_ = 0, count_ = 0, correct_ = 0, top5_ = 0;
  double loss_ = 0;
  bool keeps_ = false;
  std::vector<std::vector<std::int64_t>> confusion_;
  std::vector<std::int64_t> right_, found_, there_;  // by class
  std::vector<float> scores_;
  std::vector<std::uint8_t> truth_;
};

class LabelTally final : public Tally {
 public:
  explicit LabelTally(std::int64_t examples) : examples_(examples) {}

  void add(const data::BatchView& batch, const float* outputs, std::int64_t width) override {
    labels_ = width;
    right_.resize(static_cast<std::size_t>(width)), found_.resize(right_.size()), there_.resize(right_.size());
    const auto* targets = static_cast<const float*>(batch.target);
    if (scores_.empty() && examples_ * width <= kMostScores) {
      scores_.reserve(static_cast<std::size_t>(examples_ * width));
      truth_.reserve(scores_.capacity());
    }
    for (std::int64_t i = 0; i < batch.count * width; ++i) {
      const auto label = static_cast<std::size_t>(i % width);
      const bool truth = targets[i] > 0.5f, predicted = outputs[i] > 0;
      loss_ += binary_cross_entropy(static_cast<double>(outputs[i]), truth);
      there_[label] += truth, found_[label] += predicted, right_[label] += truth && predicted;
      correct_ += truth == predicted;
      ++count_;
      if (examples_ * width > kMostScores) continue;
      scores_.push_back(outputs[i]);
      truth_.push_back(truth);
    }
  }

  void finish(Evaluation& out) override {
    out.loss = mean(loss_, count_);
    out.count = count_;
    out.correct = correct_;
    out.metric("accuracy", out.accuracy());
    for (std::size_t i = 0; i < right_.size(); ++i)
      out.classes.push_back(metrics_of(right_[i], found_[i] - right_[i], there_[i] - right_[i]));
    out.metric("macro_f1", macro_f1(out.classes, std::vector<std::uint8_t>(right_.size(), 1)));
    if (!scores_.empty()) out.metric("auc", macro_auc(scores_, truth_, static_cast<std::size_t>(labels_)));
  }

 private:
  std::int64_t examples_, labels_ = 0, count_ = 0, correct_ = 0;  // counts are of single decisions
  double loss_ = 0;
  std::vector<std::int64_t> right_, found_, there_;  // by label
  std::vector<float> scores_;
  std::vector<std::uint8_t> truth_;
};

// What a number that the network says is in the units of the data: number * std + mean.
struct Scale {
  double mean = 0, std = 1;
};

std::vector<Scale> scales_of(const data::Description& about, const data::Preprocessing& preprocessing) {
  std::vector<Scale> scales(static_cast<std::size_t>(about.outputs));
  if (!preprocessing.rows) return scales;
  CHECK(preprocessing.rows->targets.size() == scales.size());
  for (std::size_t i = 0; i < scales.size(); ++i)
    scales[i] = {preprocessing.rows->targets[i].mean, preprocessing.rows->targets[i].std};
  return scales;
}

// In the units of the data: the network's outputs are scaled back first. The loss is in the network's own units.
class NumberTally final : public Tally {
 public:
  explicit NumberTally(std::vector<Scale> scales) : scales_(std::move(scales)) {
    truth_.resize(scales_.size());
    predicted_.resize(scales_.size());
  }

  void add(const data::BatchView& batch, const float* outputs, std::int64_t width) override {
    const auto* targets = static_cast<const float*>(batch.target);
    for (std::int64_t i = 0; i < batch.count; ++i) {
      for (std::size_t t = 0; t < scales_.size(); ++t) {
        const auto truth = static_cast<double>(targets[i * width + static_cast<std::int64_t>(t)]);
        const auto predicted = static_cast<double>(outputs[i * width + static_cast<std::int64_t>(t)]);
        loss_ += (truth - predicted) * (truth - predicted);
        truth_[t].push_back(truth * scales_[t].std + scales_[t].mean);
        predicted_[t].push_back(predicted * scales_[t].std + scales_[t].mean);
      }
    }
    count_ += batch.count;
  }

  void finish(Evaluation& out) override {
    const auto targets = static_cast<double>(scales_.size());
    out.count = count_;
    out.loss = mean(loss_, count_) / targets;
    double rmse = 0, mae = 0, r2 = 0;
    for (std::size_t t = 0; t < scales_.size(); ++t) {
      NumberMetrics one;
      one.rmse = root_mean_squared_error(truth_[t], predicted_[t]);
      one.mae = mean_absolute_error(truth_[t], predicted_[t]);
      one.r2 = r_squared(truth_[t], predicted_[t]);
      rmse += one.rmse, mae += one.mae, r2 += one.r2;
      out.numbers.push_back(one);
    }
    out.metric("rmse", rmse / targets);
    out.metric("mae", mae / targets);
    out.metric("r2", r2 / targets);
  }

 private:
  std::vector<Scale> scales_;
  std::int64_t count_ = 0;
  double loss_ = 0;
  std::vector<std::vector<double>> truth_, predicted_;  // by target
};

class TokenTally final : public Tally {
 public:
  TokenTally(std::shared_ptr<const data::Tokenizer> tokenizer, Pool& pool)
      : tokenizer_(std::move(tokenizer)), pool_(pool) {
    CHECK(tokenizer_);
  }

  void add(const data::BatchView& batch, const float* outputs, std::int64_t width) override {
    const auto* labels = static_cast<const std::int32_t*>(batch.target);
    const std::int64_t rows = batch.target_dims[0] * batch.target_dims[1];
    tokens_.assign(static_cast<std::size_t>(rows), {});
    pool_.run(batch.count, [&](std::int64_t window) {
      for (std::int64_t r = window * batch.target_dims[1]; r < (window + 1) * batch.target_dims[1]; ++r) {
        if (labels[r] < 0 || labels[r] >= width) continue;
        const std::span<const float> scores = row_of(outputs, r, width);
        tokens_[static_cast<std::size_t>(r)] = {cross_entropy(scores, labels[r]),
                                                std::ranges::max_element(scores) - scores.begin() == labels[r], true};
      }
    });
    for (std::int64_t r = 0; r < rows; ++r) {
      const Token& token = tokens_[static_cast<std::size_t>(r)];
      if (!token.counted) continue;
      nats_ += token.nats;
      correct_ += token.correct;
      bytes_ += static_cast<std::int64_t>(tokenizer_->piece(labels[r]).size());
      ++count_;
    }
  }

  void finish(Evaluation& out) override {
    out.loss = mean(nats_, count_);
    out.count = count_;
    out.correct = correct_;
    out.metric("accuracy", out.accuracy());
    out.metric("perplexity", perplexity(out.loss));
    out.metric("bits_per_byte", bits_per_byte(nats_, bytes_));
  }

 private:
  struct Token {
    double nats = 0;
    bool correct = false, counted = false;
  };
  std::shared_ptr<const data::Tokenizer> tokenizer_;
  Pool& pool_;
  std::int64_t count_ = 0, correct_ = 0, bytes_ = 0;
  double nats_ = 0;
  std::vector<Token> tokens_;  // of one batch
};

}  // namespace

std::int64_t tally_bytes(const data::Description& about) {
  const bool kept = about.targets == data::TargetKind::kClass || about.targets == data::TargetKind::kLabels;
  const std::int64_t scores = about.count * about.outputs;
  if (!kept || scores > kMostScores) return 0;
  constexpr std::int64_t kSorted = 24;  // per example, for one class at a time
  return scores * static_cast<std::int64_t>(sizeof(float) + sizeof(std::uint8_t)) + about.count * kSorted;
}

std::unique_ptr<Tally> tally_of(const data::Description& about, const data::Preprocessing& preprocessing, Pool& pool) {
  switch (about.targets) {
    case data::TargetKind::kClass:
      break;
    case data::TargetKind::kLabels:
      return std::make_unique<LabelTally>(about.count);
    case data::TargetKind::kNumbers:
      return std::make_unique<NumberTally>(scales_of(about, preprocessing));
    case data::TargetKind::kTokens:
      return std::make_unique<TokenTally>(about.tokenizer, pool);
  }
  return std::make_unique<ClassTally>(about.count);
}

}  // namespace mlx::train
