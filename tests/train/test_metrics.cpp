// Every measure against values that were worked out by hand.
#include <doctest/doctest.h>

#include <cmath>

#include "train/evaluate/metrics.h"

using namespace mlx::train;

TEST_CASE("metrics: precision, recall and F1, and their mean over the classes that occur") {
  const ClassMetrics f = metrics_of(6, 2, 4);
  CHECK(f.precision == doctest::Approx(0.75));
  CHECK(f.recall == doctest::Approx(0.6));
  CHECK(f.f1 == doctest::Approx(2 * 0.75 * 0.6 / 1.35));
  CHECK(f.support == 10);
  CHECK(metrics_of(0, 0, 0).f1 == 0);
  CHECK(metrics_of(0, 3, 0).precision == 0);
  const std::vector<ClassMetrics> classes = {metrics_of(1, 0, 0), metrics_of(1, 1, 0), metrics_of(0, 0, 0)};
  CHECK(macro_f1(classes, std::vector<std::uint8_t>{1, 1, 0}) == doctest::Approx((1 + 2.0 / 3) / 2));
  CHECK(macro_f1(classes, std::vector<std::uint8_t>{1, 1, 1}) == doctest::Approx((1 + 2.0 / 3) / 3));
  CHECK(std::isnan(macro_f1(classes, std::vector<std::uint8_t>{0, 0, 0})));
}

TEST_CASE("metrics: a label is among the top k; of equal scores the first counts") {
  const std::vector<float> scores = {0.1f, 0.7f, 0.7f, -1.0f};
  CHECK(in_top(scores, 1, 1));
  CHECK_FALSE(in_top(scores, 2, 1));
  CHECK(in_top(scores, 2, 2));
  CHECK_FALSE(in_top(scores, 0, 2));
  CHECK(in_top(scores, 3, 4));
  const std::vector<float> broken = {NAN, 1.0f};
  CHECK_FALSE(in_top(broken, 0, 2));
}

TEST_CASE("metrics: AUC by ranks, with ties") {
  // Three positives (0.9, 0.8, 0.3) over two negatives (0.5, 0.1): of six pairs five are in order.
  CHECK(auc(std::vector<float>{0.9f, 0.8f, 0.5f, 0.3f, 0.1f}, std::vector<std::uint8_t>{1, 1, 0, 1, 0}) ==
        doctest::Approx(5.0 / 6));
  CHECK(auc(std::vector<float>{1, 1, 1, 1}, std::vector<std::uint8_t>{1, 0, 1, 0}) == doctest::Approx(0.5));
  // One pair is equal, three are in order.
  CHECK(auc(std::vector<float>{2, 1, 1, 0}, std::vector<std::uint8_t>{1, 1, 0, 0}) == doctest::Approx(3.5 / 4));
  CHECK(auc(std::vector<float>{0, 1}, std::vector<std::uint8_t>{1, 0}) == 0);
  CHECK(std::isnan(auc(std::vector<float>{0, 1}, std::vector<std::uint8_t>{1, 1})));
  CHECK(std::isnan(auc(std::vector<float>{0, NAN}, std::vector<std::uint8_t>{1, 0})));
  // Class 0 has an AUC of 1, class 1 of 1/2, class 2 no positive example.
  const std::vector<float> scores = {3, 1, 0, 2, 1, 0, 1, 1, 0};
  const std::vector<std::uint8_t> truth = {1, 0, 0, 0, 1, 0, 0, 1, 0};
  CHECK(macro_auc(scores, truth, 3) == doctest::Approx(0.75));
}

TEST_CASE("metrics: errors of numbers") {
  const std::vector<double> truth = {1, 2, 3, 6}, predicted = {2, 2, 1, 5};
  CHECK(root_mean_squared_error(truth, predicted) == doctest::Approx(std::sqrt(6.0 / 4)));
  CHECK(mean_absolute_error(truth, predicted) == doctest::Approx(1));
  CHECK(r_squared(truth, predicted) == doctest::Approx(1 - 6.0 / 14));  // mean 3: 4 + 1 + 0 + 9
  CHECK(r_squared(truth, truth) == 1);
  CHECK(std::isnan(r_squared(std::vector<double>{2, 2}, std::vector<double>{1, 3})));
}

TEST_CASE("metrics: cross-entropies, perplexity and bits per byte") {
  CHECK(cross_entropy(std::vector<float>{0, 0, 0, 0}, 2) == doctest::Approx(std::log(4.0)));
  CHECK(cross_entropy(std::vector<float>{1000, 0}, 0) == doctest::Approx(0));
  CHECK(cross_entropy(std::vector<float>{1000, 0}, 1) == doctest::Approx(1000));
  CHECK(binary_cross_entropy(0, 1) == doctest::Approx(std::log(2.0)));
  CHECK(binary_cross_entropy(-1000, 1) == doctest::Approx(1000));
  CHECK(binary_cross_entropy(1000, 1) == 0);
  CHECK(binary_cross_entropy(2, 0) == doctest::Approx(-std::log(1 - 1 / (1 + std::exp(-2.0)))));
  CHECK(perplexity(std::log(8.0)) == doctest::Approx(8));
  // Ten tokens of three bits each, over fifteen bytes.
  CHECK(bits_per_byte(30 * std::log(2.0), 15) == doctest::Approx(2));
  CHECK(std::isnan(bits_per_byte(1, 0)));
}
