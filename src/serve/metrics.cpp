// Counters behind a mutex: a few additions a request. The samples of one metric stand together, whatever the model.
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

void write(Out out, const char* name, const std::string& model, const Histogram& histogram) {
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < histogram.bounds.size(); ++i) {
    below += histogram.counts[i];
    fmt::format_to(out, "{}_bucket{{model=\"{}\",le=\"{}\"}} {}\n", name, model, histogram.bounds[i], below);
  }
  below += histogram.counts.back();
  fmt::format_to(out, "{0}_bucket{{model=\"{1}\",le=\"+Inf\"}} {2}\n{0}_sum{{model=\"{1}\"}} {3}\n", name, model, below,
                 histogram.sum);
  fmt::format_to(out, "{}_count{{model=\"{}\"}} {}\n", name, model, below);
}

template <typename Value>
void each(Out out, const char* name, const char* type, const char* help, const std::vector<ModelSample>& models,
          Value value_of) {
  describe(out, name, type, help);
  for (const ModelSample& model : models)
    fmt::format_to(out, "{}{{model=\"{}\"}} {}\n", name, label(model.model), value_of(model));
}

void write_drift(Out out, const std::vector<ModelSample>& models) {
  std::vector<ModelSample> watched;
  std::ranges::copy_if(models, std::back_inserter(watched), [](const ModelSample& m) { return m.drift.has_value(); });
  if (watched.empty()) return;
  const auto columns = [&](const char* name, const char* help, auto value) {
    describe(out, name, "gauge", help);
    for (const ModelSample& m : watched)
      for (const monitor::ColumnDrift& column : m.drift->columns)
        fmt::format_to(out, "{}{{model=\"{}\",feature=\"{}\"}} {}\n", name, label(m.model), label(column.column.name),
                       value(m, column));
  };
  columns("mlx_drift_psi", "Population stability index of the last window against the training data.",
          [](const ModelSample&, const monitor::ColumnDrift& column) { return column.psi; });
  columns("mlx_drift", "1 where several windows in turn differed from the training data.",
          [](const ModelSample& m, const monitor::ColumnDrift& column) {
            return std::ranges::count(m.drift->drifted, column.column.name);
          });
  each(out, "mlx_drift_examples_total", "counter", "Examples that were compared with the training data.", watched,
       [](const ModelSample& m) { return m.drift->items; });
  each(out, "mlx_drift_dropped_total", "counter", "Examples that were not, as too many waited.", watched,
       [](const ModelSample& m) { return m.drift->dropped; });
  each(out, "mlx_drift_windows_total", "counter", "Windows of examples that were judged.", watched,
       [](const ModelSample& m) { return m.drift->windows; });
  each(out, "mlx_drift_established_windows_total", "counter", "Windows that ended with drift established.", watched,
       [](const ModelSample& m) { return m.drift->drifted_windows; });
}

}  // namespace

void Histogram::add(double value) {
  const auto at = std::lower_bound(bounds.begin(), bounds.end(), value);
  ++counts[static_cast<std::size_t>(at - bounds.begin())];
  sum += value;
}

void ModelMetrics::inference(double seconds) {
  const std::lock_guard lock(mutex_);
  counts_.latency.add(seconds);
}

void ModelMetrics::batch(std::int64_t examples, double seconds) {
  const std::lock_guard lock(mutex_);
  counts_.batches.add(static_cast<double>(examples));
  counts_.examples += static_cast<std::uint64_t>(examples);
  counts_.compute_seconds += seconds;
}

void ModelMetrics::generated(std::int64_t tokens, double seconds) {
  const std::lock_guard lock(mutex_);
  counts_.tokens += static_cast<std::uint64_t>(tokens);
  counts_.compute_seconds += seconds;
}

void ModelMetrics::proposed(std::int64_t tokens, std::int64_t accepted) {
  const std::lock_guard lock(mutex_);
  counts_.proposed += static_cast<std::uint64_t>(tokens);
  counts_.accepted += static_cast<std::uint64_t>(accepted);
}

void ModelMetrics::shared(std::int64_t tokens) {
  const std::lock_guard lock(mutex_);
  counts_.shared += static_cast<std::uint64_t>(tokens);
}

void ModelMetrics::replaced() {
  const std::lock_guard lock(mutex_);
  ++counts_.replaced;
}

void ModelMetrics::refused() {
  const std::lock_guard lock(mutex_);
  ++counts_.refused;
}

void ModelMetrics::failed() {
  const std::lock_guard lock(mutex_);
  ++counts_.failed;
}

void ModelMetrics::rolled_back() {
  const std::lock_guard lock(mutex_);
  ++counts_.rolled_back;
}

ModelCounts ModelMetrics::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void Metrics::request(int status) {
  const std::lock_guard lock(mutex_);
  ++by_status_[status];
}

void Metrics::connections(int change) {
  const std::lock_guard lock(mutex_);
  connections_ += change;
}

std::string Metrics::text(const std::vector<ModelSample>& models, std::size_t weights_bytes) const {
  std::string text;
  const Out out = std::back_inserter(text);
  describe(out, "mlx_model_info", "gauge", "The models that are served; always 1.");
  for (const ModelSample& model : models) {
    fmt::format_to(out, "mlx_model_info{{model=\"{}\",version=\"{}\",digest=\"{}\",precision=\"{}\"}} 1\n",
                   label(model.model), label(model.version), label(model.digest), label(model.precision));
  }
  describe(out, "mlx_inference_seconds", "histogram", "Time from a whole inference request to its answer.");
  for (const ModelSample& model : models) write(out, "mlx_inference_seconds", label(model.model), model.counts.latency);
  describe(out, "mlx_batch_examples", "histogram", "Examples computed together.");
  for (const ModelSample& model : models) write(out, "mlx_batch_examples", label(model.model), model.counts.batches);
  each(out, "mlx_examples_total", "counter", "Examples computed.", models,
       [](const ModelSample& m) { return m.counts.examples; });
  each(out, "mlx_tokens_total", "counter", "Tokens generated.", models,
       [](const ModelSample& m) { return m.counts.tokens; });
  each(out, "mlx_proposed_tokens_total", "counter", "Tokens that were proposed and computed before they were drawn.",
       models, [](const ModelSample& m) { return m.counts.proposed; });
  each(out, "mlx_accepted_tokens_total", "counter", "Proposed tokens that were drawn then.", models,
       [](const ModelSample& m) { return m.counts.accepted; });
  each(out, "mlx_shared_tokens_total", "counter", "Tokens of prompts that were not computed, as another text had them.",
       models, [](const ModelSample& m) { return m.counts.shared; });
  each(out, "mlx_model_replaced_total", "counter", "Versions that have taken the place of another one.", models,
       [](const ModelSample& m) { return m.counts.replaced; });
  each(out, "mlx_release_refused_total", "counter",
       "Attempts to serve another version that failed, such as for golden outputs.", models,
       [](const ModelSample& m) { return m.counts.refused; });
  each(out, "mlx_release_rolled_back_total", "counter", "Versions that --rollback-on has taken back.", models,
       [](const ModelSample& m) { return m.counts.rolled_back; });
  each(out, "mlx_model_errors_total", "counter", "Requests that a model answered with an error of its own.", models,
       [](const ModelSample& m) { return m.counts.failed; });
  each(out, "mlx_compute_seconds_total", "counter", "Time spent computing batches and texts.", models,
       [](const ModelSample& m) { return m.counts.compute_seconds; });
  each(out, "mlx_queue_examples", "gauge", "Examples or texts that wait to be computed.", models,
       [](const ModelSample& m) { return m.queued; });
  write_drift(out, models);
  describe(out, "mlx_weights_bytes", "gauge", "Bytes of all weights and their packed forms; shared ones count once.");
  fmt::format_to(out, "mlx_weights_bytes {}\n", weights_bytes);
  const std::lock_guard lock(mutex_);
  describe(out, "mlx_http_requests_total", "counter", "Answered HTTP requests by status code.");
  for (const auto& [status, count] : by_status_)
    fmt::format_to(out, "mlx_http_requests_total{{code=\"{}\"}} {}\n", status, count);
  describe(out, "mlx_connections", "gauge", "Open connections.");
  fmt::format_to(out, "mlx_connections {}\n", connections_);
  return text;
}

}  // namespace mlx::serve
