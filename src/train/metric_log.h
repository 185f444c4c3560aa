// A run's metrics on their way to the database: collected in memory, written about once a second in one transaction.
// Owned by the training loop; one thread calls it.
#pragma once

#include <string>
#include <vector>

#include "base/progress.h"
#include "registry/versions/runs.h"

namespace mlx::train {

class MetricLog {
 public:
  MetricLog(registry::Repository& repository, const std::string& run, Progress& progress);  // all outlive it
  void add(std::int64_t step, std::string name, double value);
  void flush_if_due();
  // What cannot be written is a warning and is dropped; a repository that is gone is an error (require_repository).
  void flush();

 private:
  registry::Repository& repository_;
  const std::string& run_;
  Progress& progress_;
  std::vector<registry::MetricPoint> points_;
  double flushed_;  // of seconds_now()
};

}  // namespace mlx::train
