// Metrics of predictions: pure functions in double precision over predictions and truths. Used by evaluation; each has
// a test against values computed by hand.
//
// If a metric is not defined (no positive example, truths that are all the same) it is NaN, and evaluation omits it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mlx::train {

struct ClassMetrics {
  double precision = 0, recall = 0, f1 = 0;  // 0 if not defined
  std::int64_t support = 0;
};
// For one class or label: true positives, false positives, false negatives.
ClassMetrics metrics_of(std::int64_t right, std::int64_t wrong, std::int64_t missed);
// Mean F1 over the classes that occur or were predicted; `occurs` tells which.
double macro_f1(std::span<const ClassMetrics> classes, std::span<const std::uint8_t> occurs);

// True if fewer than `k` scores are larger than the label's, or equal and before it.
bool in_top(std::span<const float> scores, std::int64_t label, std::int64_t k);

// Area under the ROC curve, by ranks with ties sharing theirs (Mann & Whitney 1947): the probability that a positive
// example is scored above a negative one.
double auc(std::span<const float> scores, std::span<const std::uint8_t> positive);
// Mean over classes of the AUC of each against the rest, without classes that lack positive or negative examples.
// `scores` and `truth` are [examples][classes].
double macro_auc(std::span<const float> scores, std::span<const std::uint8_t> truth, std::size_t classes);

double root_mean_squared_error(std::span<const double> truth, std::span<const double> predicted);
double mean_absolute_error(std::span<const double> truth, std::span<const double> predicted);
// 1 - (sum of squared errors) / (sum of squared deviations of the truth from its mean).
double r_squared(std::span<const double> truth, std::span<const double> predicted);

double perplexity(double nats_per_token);
// The bits per byte that a compressor would need. `nats` and `bytes` are those of the whole text.
double bits_per_byte(double nats, std::int64_t bytes);

// -log softmax(scores)[label], computed with the maximum subtracted.
double cross_entropy(std::span<const float> scores, std::int64_t label);
// -log of the probability that sigmoid(score) gives to `truth`, 0 or 1.
double binary_cross_entropy(double score, double truth);

}  // namespace mlx::train
