// The metrics by their definitions; sums are in the order of the examples.

#include "train/evaluate/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "base/error.h"

namespace mlx::train {
namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double squared_errors(std::span<const double> truth, std::span<const double> predicted) {
  double sum = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) sum += (truth[i] - predicted[i]) * (truth[i] - predicted[i]);
  return sum;
}

}  // namespace

ClassMetrics metrics_of(std::int64_t right, std::int64_t wrong, std::int64_t missed) {
  ClassMetrics out;
  out.support = right + missed;
  const auto hits = static_cast<double>(right);
  out.precision = right + wrong ? hits / static_cast<double>(right + wrong) : 0;
  out.recall = out.support ? hits / static_cast<double>(out.support) : 0;
  if (out.precision + out.recall > 0) out.f1 = 2 * out.precision * out.recall / (out.precision + out.recall);
  return out;
}

double macro_f1(std::span<const ClassMetrics> classes, std::span<const std::uint8_t> occurs) {
  double sum = 0, count = 0;
  for (std::size_t i = 0; i < classes.size(); ++i)
    if (occurs[i]) sum += classes[i].f1, ++count;
  return count > 0 ? sum / count : kUndefined;
}

bool in_top(std::span<const float> scores, std::int64_t label, std::int64_t k) {
  const float own = scores[static_cast<std::size_t>(label)];
  std::int64_t ahead = 0;
  for (std::size_t i = 0; i < scores.size(); ++i)
    ahead += scores[i] > own || (scores[i] == own && static_cast<std::int64_t>(i) < label);
  return own == own && ahead < k;
}

double auc(std::span<const float> scores, std::span<const std::uint8_t> positive) {
  CHECK(scores.size() == positive.size());
  if (std::ranges::any_of(scores, [](float score) { return std::isnan(score); })) return kUndefined;
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return scores[i]; });
  double ranks = 0, positives = 0;
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin;
    while (end < order.size() && scores[order[end]] == scores[order[begin]]) ++end;
    const double rank = (static_cast<double>(begin + 1) + static_cast<double>(end)) / 2;  // shared, from 1
    for (std::size_t i = begin; i < end; ++i)
      if (positive[order[i]]) ranks += rank, ++positives;
    begin = end;
  }
  const double negatives = static_cast<double>(scores.size()) - positives;
  if (positives == 0 || negatives == 0) return kUndefined;
  return (ranks - positives * (positives + 1) / 2) / (positives * negatives);
}

double macro_auc(std::span<const float> scores, std::span<const std::uint8_t> truth, std::size_t classes) {
  CHECK(classes > 0 && scores.size() == truth.size() && scores.size() % classes == 0);
  const std::size_t examples = scores.size() / classes;
  std::vector<float> own(examples);
  std::vector<std::uint8_t> positive(examples);
  double sum = 0, count = 0;
  for (std::size_t c = 0; c < classes; ++c) {
    for (std::size_t i = 0; i < examples; ++i) {
      own[i] = scores[i * classes + c];
      positive[i] = truth[i * classes + c];
    }
    const double area = auc(own, positive);
    if (!std::isnan(area)) sum += area, ++count;
  }
  return count > 0 ? sum / count : kUndefined;
}

double root_mean_squared_error(std::span<const double> truth, std::span<const double> predicted) {
  return std::sqrt(squared_errors(truth, predicted) / static_cast<double>(truth.size()));
}

double mean_absolute_error(std::span<const double> truth, std::span<const double> predicted) {
  double sum = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) sum += std::abs(truth[i] - predicted[i]);
  return sum / static_cast<double>(truth.size());
}

double r_squared(std::span<const double> truth, std::span<const double> predicted) {
  const double mean = mean_of(truth);
  double spread = 0;
  for (const double value : truth) spread += (value - mean) * (value - mean);
  return spread > 0 ? 1 - squared_errors(truth, predicted) / spread : kUndefined;
}

double perplexity(double nats_per_token) {
  return std::exp(nats_per_token);
}

double bits_per_byte(double nats, std::int64_t bytes) {
  return bytes > 0 ? nats / std::numbers::ln2 / static_cast<double>(bytes) : kUndefined;
}

double cross_entropy(std::span<const float> scores, std::int64_t label) {
  const auto largest = static_cast<double>(*std::ranges::max_element(scores));
  double sum = 0;
  for (const float score : scores) sum += std::exp(static_cast<double>(score) - largest);
  return std::log(sum) + largest - static_cast<double>(scores[static_cast<std::size_t>(label)]);
}

double binary_cross_entropy(double score, double truth) {
  return std::max(score, 0.0) - score * truth + std::log1p(std::exp(-std::abs(score)));
}

}  // namespace mlx::train
