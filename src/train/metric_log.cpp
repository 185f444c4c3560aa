// Batches of points.
#include "train/metric_log.h"

#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "train/run_scope.h"

namespace mlx::train {
namespace {

constexpr double kInterval = 1.0;  // seconds

}  // namespace

MetricLog::MetricLog(registry::Repository& repository, const std::string& run, Progress& progress)
    : repository_(repository), run_(run), progress_(progress), flushed_(seconds_now()) {}

void MetricLog::add(std::int64_t step, std::string name, double value) {
  points_.push_back({step, std::move(name), value, unix_micros()});
}

void MetricLog::flush_if_due() {
  if (seconds_now() - flushed_ > kInterval) flush();
}

void MetricLog::flush() {
  flushed_ = seconds_now();
  require_repository(repository_);
  if (points_.empty()) return;
  try {
    registry::log_metrics(repository_, run_, points_);
  } catch (const Error& error) {
    require_repository(repository_);
    if (error.kind != ErrorKind::kIo) throw;
    progress_.warn(fmt::format("metrics up to step {} are not recorded: {}", points_.back().step, error.message));
  }
  points_.clear();
}

}  // namespace mlx::train
