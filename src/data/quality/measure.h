// Measures statistics of splits in one pass each, in memory that the number of columns bounds and the number of items
// does not. Rules over single items (rules.h) look at the same pass.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "data/quality/scan.h"
#include "data/quality/sketches.h"
#include "data/quality/statistics.h"

namespace mlx::data {

// Sees every observation of the split `name` besides the statistics.
using Watch = std::function<void(const std::string& name, const Observation&)>;

// All splits of a version, or only `only` if it is not empty. `target`: a column's name, or "" for none (for images,
// the class). kNotFound if a table lacks that column.
Statistics measure_statistics(const store::Store& store, const Digest& manifest, const std::string& only,
                              const std::string& target, const Watch& watch, Progress& progress);

}  // namespace mlx::data
