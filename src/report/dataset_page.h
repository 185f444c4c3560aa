// One self-contained HTML page about a dataset: counts, columns with their distributions, correlations, the target
// against each column, outliers, duplicates, leaks, some images, and what changed since another version. Inline SVG and
// CSS, no scripts, no network; light and dark by prefers-color-scheme. Used by cmd/describe_data.cpp. The same input
// gives the same bytes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "data/quality/drift.h"
#include "data/quality/pictures.h"
#include "data/quality/statistics.h"

namespace mlx::report {

struct DatasetFacts {
  std::string name, digest;
  data::Statistics statistics;
  std::map<std::string, data::Pictures> pictures;  // by split
  std::string before;                              // the version that `drift` compares with; "" for none
  std::vector<data::SplitDrift> drift;
};
std::string dataset_page(const DatasetFacts& facts);

// Bars of equal width.
std::string histogram_svg(const std::vector<std::uint64_t>& counts, const std::string& title);
// Correlations of the columns that occur in `pairs`, as a heat map; "" for less than two.
std::string correlations_svg(const std::vector<data::Association>& pairs);

}  // namespace mlx::report
