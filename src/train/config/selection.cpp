// Compares epochs. Larger values of a metric are better, except for those in the table below.
#include "train/config/selection.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"

namespace mlx::train {
namespace {

constexpr const char* kMain = "accuracy";  // the default metric

bool smaller_is_better(const std::string& metric) {
  for (const char* name : {"loss", "rmse", "mae", "perplexity", "bits_per_byte"}) {
    if (metric == name) return true;
  }
  return false;
}

double value_of(const Metrics& metrics, const std::string& metric) {
  std::string names;
  for (const auto& [name, value] : metrics) {
    if (name == metric) return value;
    names += (names.empty() ? "" : ", ") + name;
  }
  throw Error(ErrorKind::kUsage, fmt::format("[train] metric = \"{}\" is not measured on this data", metric),
              "it is one of " + names);
}

// Numbers have no accuracy; their default metric is the loss.
std::string metric_of(const SelectionConfig& config, const Metrics& metrics) {
  if (!config.metric.empty() && config.metric != kMain) return config.metric;
  const bool measured = std::ranges::any_of(metrics, [](const auto& each) { return each.first == kMain; });
  return measured ? kMain : "loss";
}

Json metrics_to_json(const Metrics& metrics) {
  Json out = Json::object();
  for (const auto& [name, value] : metrics) out[name] = value;
  return out;
}

Metrics metrics_from_json(const Json& json, const char* key, const std::string& what) {
  Metrics out;
  const Json& metrics = json_object(json, key, what);
  for (const auto& item : metrics.items()) out.emplace_back(item.key(), json_number(metrics, item.key(), what));
  return out;
}

}  // namespace

SelectionConfig read_selection(TomlReader& train, bool validated) {
  SelectionConfig out;
  out.keep_best = train.one_of("keep", {"last", "best"}, "last") == "best";
  out.patience = train.integer("patience", 0, 1000000, 0);
  if (!validated) {
    for (const char* key : {"keep", "patience"}) {
      const bool asked = std::string_view(key) == "keep" ? out.keep_best : out.patience > 0;
      if (asked) train.fail_at(key, "needs validation data: set [data] valid or hold_out");
    }
  }
  const bool used = out.keep_best || out.patience > 0;
  if (used) out.metric = train.string("metric", kMain);
  if (!used && train.has("metric")) train.fail_at("metric", "it is only for keep = \"best\" and patience");
  return out;
}

void write_selection(const SelectionConfig& selection, Json& train) {
  if (selection.keep_best) train["keep"] = "best";
  if (selection.patience > 0) train["patience"] = selection.patience;
  if (!selection.metric.empty()) train["metric"] = selection.metric;
}

bool improves(Selection& selection, const SelectionConfig& config, const Metrics& metrics, std::int64_t step) {
  const std::string metric = metric_of(config, metrics);
  const double now = value_of(metrics, metric);
  selection.last = metrics;
  selection.last_step = step;
  const double before = selection.best.empty() ? 0 : value_of(selection.best, metric);
  const bool better = selection.best.empty() || (smaller_is_better(metric) ? now < before : now > before);
  selection.epochs_since = better ? 0 : selection.epochs_since + 1;
  if (!better) return false;
  selection.best = metrics;
  selection.best_step = step;
  return true;
}

bool out_of_patience(const Selection& selection, const SelectionConfig& config) {
  return config.patience > 0 && selection.epochs_since >= config.patience;
}

Json to_json(const Selection& selection) {
  return {{"best", metrics_to_json(selection.best)},
          {"best_step", selection.best_step},
          {"epochs_since", selection.epochs_since},
          {"last", metrics_to_json(selection.last)},
          {"last_step", selection.last_step}};
}

Selection selection_from_json(const Json& json, const std::string& what) {
  Selection out;
  out.best = metrics_from_json(json, "best", what);
  out.last = metrics_from_json(json, "last", what);
  out.last_step = json_int(json, "last_step", what);
  out.best_step = json_int(json, "best_step", what);
  out.epochs_since = json_int(json, "epochs_since", what);
  return out;
}

}  // namespace mlx::train
