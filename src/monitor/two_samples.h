// Whether two samples are of one distribution: tests with p-values, how far apart the samples are, and how many of many
// tests may be believed. Used by drift.cpp. Nothing here depends on chance.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mlx::monitor {

struct Test {
  double statistic = 0;
  double p = 1;  // how often samples of one distribution are this far apart
};

// The population stability index of counts in the same cells. 0 where a sample is empty. A share of 0 counts as 0.0001,
// whose logarithm is finite.
double stability_index(std::span<const std::uint64_t> before, std::span<const std::uint64_t> after);

// Kolmogorov and Smirnov's test of two samples, of which it is known how many values are at most some points:
// counts[i] are the values above point i - 1 and at most point i, the last those above all points. The distance is the
// largest one at these points; p is the asymptotic one with Stephens' correction for small samples (1970).
Test kolmogorov_smirnov(std::span<const std::uint64_t> before, std::span<const std::uint64_t> after);

// Pearson's test that two rows of counts have the same shares. Cells of which a row can expect less than 5 are pooled,
// the rarest first (Cochran, 1954). p is 1 where one cell is left.
Test chi_square(std::span<const std::uint64_t> before, std::span<const std::uint64_t> after);

// Whether two shares are the same: of `before_all` items `before` are such ones, of `after_all` `after`. By
// chi_square() where each cell can expect 5, else by Fisher's exact test, which sees what never occurred before. The
// statistic is the difference of the shares.
Test same_share(std::uint64_t before, std::uint64_t before_all, std::uint64_t after, std::uint64_t after_all);

// Benjamini and Hochberg's q-values (1995), in the order of `p`: of the tests with q up to 0.05, at most 5 % are false
// in the long run.
std::vector<double> false_discovery_rates(std::span<const double> p);

// The tails of the two distributions.
double kolmogorov_tail(double x);
double chi_square_tail(double x, double degrees);

}  // namespace mlx::monitor
