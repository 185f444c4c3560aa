// The tests, and the two distributions that their p-values come from.
#include "monitor/two_samples.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

namespace mlx::monitor {
namespace {

constexpr double kLeastShare = 1e-4, kLeastExpected = 5;
constexpr int kMostTerms = 10000;

double sum_of(std::span<const std::uint64_t> counts) {
  return static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}));
}

// The lower incomplete gamma function, regularised, by its series: for x < a + 1.
double gamma_below(double a, double x) {
  double term = 1 / a, sum = term;
  for (int i = 1; i < kMostTerms && std::abs(term) > std::abs(sum) * 1e-16; ++i) sum += term *= x / (a + i);
  return sum * std::exp(-x + a * std::log(x) - std::lgamma(a));
}

// The upper one by its continued fraction (Lentz's method): for x >= a + 1.
double gamma_above(double a, double x) {
  constexpr double kTiny = 1e-300;
  double b = x + 1 - a, c = 1 / kTiny, d = 1 / b, out = d;
  for (int i = 1; i < kMostTerms; ++i) {
    const double factor = -i * (i - a);
    b += 2;
    d = factor * d + b, c = b + factor / c;
    if (std::abs(d) < kTiny) d = kTiny;
    if (std::abs(c) < kTiny) c = kTiny;
    d = 1 / d;
    const double change = d * c;
    out *= change;
    if (std::abs(change - 1) < 1e-16) break;
  }
  return out * std::exp(-x + a * std::log(x) - std::lgamma(a));
}

double log_choose(double n, double k) {
  return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1);
}

// How often the items of the rarer kind are divided among the samples at most as probably as they are.
double fisher(double before, double before_all, double after, double after_all) {
  const double kind = before + after, all = before_all + after_all;
  const double least = std::max(0.0, kind - before_all), most = std::min(kind, after_all);
  const auto probability = [&](double k) {
    return std::exp(log_choose(after_all, k) + log_choose(before_all, kind - k) - log_choose(all, kind));
  };
  const double seen = probability(after) * (1 + 1e-7);  // equal ones differ in their last digits
  double sum = 0;
  for (double k = least; k <= most; ++k)
    if (const double each = probability(k); each <= seen) sum += each;
  return std::min(1.0, sum);
}

using Cells = std::vector<std::pair<double, double>>;

// Cells that hold enough in both rows; the others are joined, the rarest first.
Cells pooled(std::span<const std::uint64_t> before, std::span<const std::uint64_t> after) {
  Cells cells;
  for (std::size_t i = 0; i < before.size(); ++i)
    if (before[i] + after[i] > 0) cells.emplace_back(before[i], after[i]);
  std::ranges::sort(cells, {}, [](const auto& cell) { return std::pair(cell.first + cell.second, cell.first); });
  const double share = std::min(sum_of(before), sum_of(after)) / (sum_of(before) + sum_of(after));
  Cells out;
  std::pair<double, double> pool{0, 0};
  const auto too_few = [&](const auto& cell) { return (cell.first + cell.second) * share < kLeastExpected; };
  for (const auto& cell : cells) {
    if (!too_few(cell) && !(pool.first + pool.second > 0 && too_few(pool))) {
      out.push_back(cell);
      continue;
    }
    pool.first += cell.first, pool.second += cell.second;
  }
  if (pool.first + pool.second > 0) out.push_back(pool);
  return out;
}

}  // namespace

double chi_square_tail(double x, double degrees) {
  if (!(x > 0) || degrees <= 0) return 1;
  const double a = degrees / 2, half = x / 2;
  return std::clamp(half < a + 1 ? 1 - gamma_below(a, half) : gamma_above(a, half), 0.0, 1.0);
}

// Two series of the same function: one converges fast for small x, the other for large.
double kolmogorov_tail(double x) {
  if (!(x > 0)) return 1;
  if (x < 1.18) {
    double sum = 0;
    for (int i = 1; i <= 7; i += 2) sum += std::exp(-i * i * std::numbers::pi * std::numbers::pi / (8 * x * x));
    return std::clamp(1 - std::sqrt(2 * std::numbers::pi) / x * sum, 0.0, 1.0);
  }
  double sum = 0;
  for (int i = 1; i <= 8; ++i) sum += (i % 2 ? 2 : -2) * std::exp(-2.0 * i * i * x * x);
  return std::clamp(sum, 0.0, 1.0);
}

double stability_index(std::span<const std::uint64_t> before, std::span<const std::uint64_t> after) {
  const double all_before = sum_of(before), all_after = sum_of(after);
  if (all_before == 0 || all_after == 0) return 0;
  double sum = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i] == 0 && after[i] == 0) continue;
    const double a = std::max(static_cast<double>(before[i]) / all_before, kLeastShare);
    const double b = std::max(static_cast<double>(after[i]) / all_after, kLeastShare);
    sum += (b - a) * std::log(b / a);
  }
  return sum;
}

Test kolmogorov_smirnov(std::span<const std::uint64_t> before, std::span<const std::uint64_t> after) {
  const double all_before = sum_of(before), all_after = sum_of(after);
  if (all_before == 0 || all_after == 0) return {};
  Test out;
  double left = 0, right = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    left += static_cast<double>(before[i]), right += static_cast<double>(after[i]);
    out.statistic = std::max(out.statistic, std::abs(left / all_before - right / all_after));
  }
  const double root = std::sqrt(all_before / (all_before + all_after) * all_after);
  out.p = kolmogorov_tail((root + 0.12 + 0.11 / root) * out.statistic);
  return out;
}

Test chi_square(std::span<const std::uint64_t> before, std::span<const std::uint64_t> after) {
  const double all_before = sum_of(before), all_after = sum_of(after), all = all_before + all_after;
  if (all_before == 0 || all_after == 0) return {};
  const Cells cells = pooled(before, after);
  if (cells.size() < 2) return {};
  Test out;
  for (const auto& [a, b] : cells) {
    const double expected_a = (a + b) * (all_before / all), expected_b = (a + b) * (all_after / all);
    out.statistic +=
        (a - expected_a) * (a - expected_a) / expected_a + (b - expected_b) * (b - expected_b) / expected_b;
  }
  out.p = chi_square_tail(out.statistic, static_cast<double>(cells.size() - 1));
  return out;
}

Test same_share(std::uint64_t before, std::uint64_t before_all, std::uint64_t after, std::uint64_t after_all) {
  if (before_all == 0 || after_all == 0) return {};
  const auto a = static_cast<double>(before), b = static_cast<double>(after);
  const auto all_a = static_cast<double>(before_all), all_b = static_cast<double>(after_all);
  const double rarer = std::min(a + b, all_a + all_b - a - b);
  Test out{std::abs(a / all_a - b / all_b), 1};
  if (rarer * std::min(all_a, all_b) / (all_a + all_b) >= kLeastExpected) {
    const std::uint64_t left[] = {before, before_all - before}, right[] = {after, after_all - after};
    out.p = chi_square(left, right).p;
  } else {
    const bool rare = a + b <= rarer;
    out.p = fisher(rare ? a : all_a - a, all_a, rare ? b : all_b - b, all_b);
  }
  return out;
}

std::vector<double> false_discovery_rates(std::span<const double> p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return p[i]; });
  std::vector<double> out(p.size());
  double least = 1;
  for (std::size_t rank = p.size(); rank-- > 0;) {
    least = std::min(least, p[order[rank]] * static_cast<double>(p.size()) / static_cast<double>(rank + 1));
    out[order[rank]] = least;
  }
  return out;
}

}  // namespace mlx::monitor
