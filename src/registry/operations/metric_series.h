// A run's metrics: the sealed form (mlx-format-metrics(5)) and the rows in meta.db. Used by runs.cpp, and by
// kinds/runs.cpp when a database is rebuilt.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "store/sqlite.h"

namespace mlx::registry {

struct MetricPoint {
  std::int64_t step = 0;
  std::string name;  // "train/loss", "valid/accuracy"
  double value = 0;
  std::int64_t time = 0;  // unix microseconds
};

// Points are sorted by name, then step; each (name, step) occurs once.
Bytes encode_series(const std::vector<MetricPoint>& sorted);
std::vector<MetricPoint> decode_series(ByteView bytes, const std::string& what);  // kCorrupt

// Writes rows of one run, inside the caller's transaction. A point replaces an earlier one of the same name and step.
void insert_points(store::Database& db, const std::string& run, const std::vector<MetricPoint>& points);
std::vector<MetricPoint> select_points(store::Database& db, const std::string& run);  // by name, then step
std::int64_t count_points(store::Database& db, const std::string& run);
void delete_points_after(store::Database& db, const std::string& run, std::int64_t step);
void delete_points(store::Database& db, const std::string& run);

}  // namespace mlx::registry
