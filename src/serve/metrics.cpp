// Counters behind one mutex: a few additions a request.
#include "serve/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace mlx::serve {
namespace {

using Out = std::back_insert_iterator<std::string>;

void describe(Out out, const char* name, const char* type, const char* help) {
  fmt::format_to(out, "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void write(Out out, const char* name, const char* help, const Histogram& histogram) {
  describe(out, name, "histogram", help);
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < histogram.bounds.size(); ++i) {
    below += histogram.counts[i];
    fmt::format_to(out, "{}_bucket{{le=\"{}\"}} {}\n", name, histogram.bounds[i], below);
  }
  below += histogram.counts.back();
  fmt::format_to(out, "{}_bucket{{le=\"+Inf\"}} {}\n{}_sum {}\n{}_count {}\n", name, below, name, histogram.sum, name,
                 below);
}

// A label's value: backslash, quote and line feed are escaped.
std::string label(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

void Histogram::add(double value) {
  const auto at = std::lower_bound(bounds.begin(), bounds.end(), value);
  ++counts[static_cast<std::size_t>(at - bounds.begin())];
  sum += value;
}

void Metrics::request(int status) {
  const std::lock_guard lock(mutex_);
  ++by_status_[status];
}

void Metrics::inference(double seconds) {
  const std::lock_guard lock(mutex_);
  latency_.add(seconds);
}

void Metrics::batch(std::int64_t examples, double seconds) {
  const std::lock_guard lock(mutex_);
  batches_.add(static_cast<double>(examples));
  examples_ += static_cast<std::uint64_t>(examples);
  compute_seconds_ += seconds;
}

void Metrics::connections(int change) {
  const std::lock_guard lock(mutex_);
  connections_ += change;
}

std::string Metrics::text(const Info& info) const {
  const std::lock_guard lock(mutex_);
  std::string text;
  const Out out = std::back_inserter(text);
  describe(out, "mlx_model_info", "gauge", "The model that is served; always 1.");
  fmt::format_to(out, "mlx_model_info{{model=\"{}\",version=\"{}\",digest=\"{}\",precision=\"{}\"}} 1\n",
                 label(info.model), label(info.version), label(info.digest), label(info.precision));
  describe(out, "mlx_http_requests_total", "counter", "Answered HTTP requests by status code.");
  for (const auto& [status, count] : by_status_)
    fmt::format_to(out, "mlx_http_requests_total{{code=\"{}\"}} {}\n", status, count);
  write(out, "mlx_inference_seconds", "Time from a whole inference request to its answer.", latency_);
  write(out, "mlx_batch_examples", "Examples computed together.", batches_);
  describe(out, "mlx_examples_total", "counter", "Examples computed.");
  fmt::format_to(out, "mlx_examples_total {}\n", examples_);
  describe(out, "mlx_compute_seconds_total", "counter", "Time spent computing batches.");
  fmt::format_to(out, "mlx_compute_seconds_total {}\n", compute_seconds_);
  describe(out, "mlx_queue_examples", "gauge", "Examples that wait to be computed.");
  fmt::format_to(out, "mlx_queue_examples {}\n", info.queued);
  describe(out, "mlx_connections", "gauge", "Open connections.");
  fmt::format_to(out, "mlx_connections {}\n", connections_);
  return text;
}

}  // namespace mlx::serve
