// Prints a metric's values in the order of their steps, each with as many digits as it takes to read it back.
#include "cmd/show_metric.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/toml.h"
#include "registry/versions/runs.h"

namespace mlx::cmd {
namespace {

[[noreturn]] void refuse_metric(const registry::Run& run, const std::string& metric,
                                const std::vector<registry::MetricPoint>& points) {
  std::vector<std::string> names;
  names.reserve(points.size());
  for (const registry::MetricPoint& point : points) names.push_back(point.name);
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  const std::string close = did_you_mean(metric, names);
  std::string hint = fmt::format("it has: {}", fmt::join(names, ", "));
  if (names.empty()) hint = "`mlx fetch` fetches what another clone measured";
  if (!close.empty()) hint = fmt::format("did you mean '{}'?", close);
  throw Error(ErrorKind::kNotFound, fmt::format("run:{} has no metric '{}'", run.id, metric), hint);
}

}  // namespace

int show_metric(const std::string& reference, const std::string& metric, bool csv, Context& context) {
  const registry::Run run = registry::read_run(context.repository(), reference);
  std::vector<registry::MetricPoint> all = registry::metrics(context.repository(), run.id), points;
  std::ranges::copy_if(all, std::back_inserter(points),
                       [&](const registry::MetricPoint& point) { return point.name == metric; });
  if (points.empty()) refuse_metric(run, metric, all);
  std::ranges::stable_sort(points, {}, &registry::MetricPoint::step);
  if (context.wants_json()) {
    Json list = Json::array();
    for (const registry::MetricPoint& point : points) {
      const Json value = std::isfinite(point.value) ? Json(point.value) : Json();
      list.push_back({{"step", point.step}, {"time", iso_time(point.time)}, {"value", value}});
    }
    context.json({{"schema", "mlx.show/1"}, {"kind", "metric"}, {"run", run.id}, {"metric", metric}, {"points", list}});
    return 0;
  }
  context.start_pager();
  if (csv) context.line("step," + metric);
  for (const registry::MetricPoint& point : points)
    context.line(csv ? fmt::format("{},{}", point.step, point.value)
                     : fmt::format("{:>8}  {}", point.step, point.value));
  return 0;
}

}  // namespace mlx::cmd
