// What changed between the statistics of two versions: counts, missing values, values that came or went, and how far
// apart the distributions of each column are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "data/quality/statistics.h"

namespace mlx::data {

struct ColumnDrift {
  std::string split, column, type_before, type_after;  // a type is "-" where the column is not there
  double psi = 0;                                      // population stability index: below 0.1 little, above 0.25 much
  double ks = 0;  // Kolmogorov and Smirnov's distance between numbers, to within 0.01; 0 for others
  double mean_before = 0, mean_after = 0, missing_before = 0, missing_after = 0;  // missing: shares
  std::vector<std::string> new_values, lost_values;                               // of categories
};

struct SplitDrift {
  std::string split;
  std::uint64_t items_before = 0, items_after = 0;
  std::vector<ColumnDrift> columns;  // the largest psi first
};

std::vector<SplitDrift> drift_between(const Statistics& before, const Statistics& after);
// Of columns with values in both; 0 where one has none.
double stability_index(const ColumnStatistics& before, const ColumnStatistics& after);
double largest_distance(const ColumnStatistics& before, const ColumnStatistics& after);
Json to_json(const std::vector<SplitDrift>& drift);

}  // namespace mlx::data
