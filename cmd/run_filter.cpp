// Conditions and keys over runs.
#include "cmd/run_filter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/toml.h"
#include "cmd/condition.h"

namespace mlx::cmd {
namespace {

constexpr const char* kWhere = "--where";

Condition where(const std::string& text) {
  return parse_condition(text, kWhere, "valid_accuracy>=0.9");
}

Json document(const std::string& text, const registry::Run& run) {
  return text.empty() ? Json::object() : parse_json(text, "run:" + run.id);
}

// "train.optimizer.name" in nested objects; null if there is no such member.
const Json* member(const Json& object, std::string_view path) {
  if (!object.is_object()) return nullptr;
  const std::size_t dot = path.find('.');
  const auto found = object.find(std::string(path.substr(0, dot)));
  if (found == object.end()) return nullptr;
  return dot == std::string_view::npos ? &*found : member(*found, path.substr(dot + 1));
}

// Parameters that a run stores under another path than its config.
struct Nested {
  std::string_view in_config, in_run;
};
constexpr Nested kNested[] = {{"train.", "train.optimizer."}, {"model.", "model.config."}};

// A parameter by its path, as the config writes it or as the run keeps it.
const Json* parameter(const Json& params, const std::string& path) {
  if (const Json* found = member(params, path)) return found;
  for (const Nested& nested : kNested) {
    if (!path.starts_with(nested.in_config)) continue;
    const std::string inner = std::string(nested.in_run) + path.substr(nested.in_config.size());
    if (const Json* found = member(params, inner)) return found;
  }
  return nullptr;
}

// A table is not a value, except one with a `name`, such as an optimizer.
bool is_table(const Json& value) {
  return value.is_object() && !(value.contains("name") && value["name"].is_string());
}

const Json* leaf(const Json* found) {
  return found && is_table(*found) ? nullptr : found;
}

std::optional<Value> look_up(registry::Repository& repository, const registry::Run& run, const std::string& name) {
  if (name == "command") return Value{std::nullopt, run.command};
  if (name == "status") return Value{std::nullopt, name_of(run.status)};
  if (name == "title") return Value{std::nullopt, run.title};
  if (name == "seconds" && run.ended != 0) return Value{static_cast<double>(run.ended - run.started) / 1e6, {}};
  if (name.find('/') != std::string::npos) {
    const std::vector<registry::MetricPoint> points = registry::metrics(repository, run.id, name);
    if (points.empty()) return std::nullopt;
    return Value{points.back().value, {}};
  }
  const Json summary = document(run.summary, run), params = document(run.params, run);
  if (const Json* found = leaf(member(summary, name))) return value_of(*found);
  if (const Json* found = leaf(parameter(params, name))) return value_of(*found);
  return std::nullopt;
}

void add_paths(const Json& object, const std::string& prefix, std::set<std::string>& to) {
  for (const auto& [key, value] : object.items()) {
    const std::string path = prefix + key;
    if (value.is_object()) add_paths(value, path + ".", to);
    if (is_table(value)) continue;
    to.insert(path);
    for (const Nested& nested : kNested) {
      if (path.starts_with(nested.in_run)) to.insert(std::string(nested.in_config) + path.substr(nested.in_run.size()));
    }
  }
}

// With what runs have, for the did-you-mean.
[[noreturn]] void refuse_name(registry::Repository& repository, const std::vector<registry::Run>& runs,
                              const std::string& name) {
  std::set<std::string> names{"command", "status", "seconds", "title"};
  for (const registry::Run& run : runs) {
    add_paths(document(run.summary, run), "", names);
    add_paths(document(run.params, run), "", names);
    if (name.find('/') == std::string::npos) continue;
    for (const registry::MetricPoint& point : registry::metrics(repository, run.id)) names.insert(point.name);
  }
  const std::string close = did_you_mean(name, {names.begin(), names.end()});
  throw Error(ErrorKind::kUsage,
              fmt::format("no run has '{}'{}", name, close.empty() ? "" : fmt::format("; did you mean '{}'?", close)),
              "`mlx show run:ID` lists metrics and parameters");
}

// By run; throws if none of `all` has it, whatever the other conditions.
std::vector<std::optional<Value>> values_of(registry::Repository& repository, const std::vector<registry::Run>& all,
                                            const std::vector<registry::Run>& runs, const std::string& name) {
  std::vector<std::optional<Value>> found;
  found.reserve(runs.size());
  for (const registry::Run& run : runs) found.push_back(look_up(repository, run, name));
  const auto has_value = [](const auto& value) { return value.has_value(); };
  const auto has_it = [&](const registry::Run& run) { return look_up(repository, run, name).has_value(); };
  if (!all.empty() && std::ranges::none_of(found, has_value) && std::ranges::none_of(all, has_it))
    refuse_name(repository, all, name);
  return found;
}

// Numbers before texts before nothing, whichever way; NaN is nothing.
int rank_of(const std::optional<Value>& value) {
  if (!value || (value->number && std::isnan(*value->number))) return 2;
  return value->number ? 0 : 1;
}

void sort_by(const RunFilter& filter, registry::Repository& repository, const std::vector<registry::Run>& all,
             std::vector<registry::Run>& runs) {
  const std::vector<std::optional<Value>> keys = values_of(repository, all, runs, filter.sort);
  std::vector<std::size_t> order(runs.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    const int rank = rank_of(keys[a]);
    if (rank != rank_of(keys[b])) return rank < rank_of(keys[b]);
    if (rank == 2) return false;
    const Value& first = filter.reverse ? *keys[b] : *keys[a];
    const Value& second = filter.reverse ? *keys[a] : *keys[b];
    return rank == 0 ? *first.number < *second.number : first.text < second.text;
  });
  std::vector<registry::Run> sorted;
  sorted.reserve(runs.size());
  for (const std::size_t at : order) sorted.push_back(std::move(runs[at]));
  runs = std::move(sorted);
}

}  // namespace

void apply(const RunFilter& filter, registry::Repository& repository, std::vector<registry::Run>& runs) {
  std::vector<registry::Run> all;  // to find names that no run has
  if (!filter.where.empty() || !filter.sort.empty()) all = runs;
  if (filter.reverse && filter.sort.empty()) std::ranges::reverse(runs);
  for (const std::string& text : filter.where) {
    const Condition condition = where(text);
    const std::vector<std::optional<Value>> found = values_of(repository, all, runs, condition.name);
    std::vector<registry::Run> kept;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      // Runs of an older mlx kept settings as the f32 that they are.
      if (found[i] && holds(condition, *found[i], true)) kept.push_back(std::move(runs[i]));
    }
    runs = std::move(kept);
  }
  if (!filter.status.empty()) {
    const std::optional<registry::RunStatus> wanted = registry::parse_run_status(filter.status);
    std::erase_if(runs, [&](const registry::Run& run) { return run.status != wanted; });
  }
  if (!filter.sort.empty()) sort_by(filter, repository, all, runs);
}

std::vector<std::pair<std::string, std::string>> looked_at(const RunFilter& filter, registry::Repository& repository,
                                                           const registry::Run& run) {
  std::vector<std::string> names;
  for (const std::string& text : filter.where) names.push_back(where(text).name);
  if (!filter.sort.empty()) names.push_back(filter.sort);
  std::vector<std::pair<std::string, std::string>> found;
  for (const std::string& name : names) {
    if (name == "command" || name == "status" || name == "seconds" || name == "title") continue;
    if (std::ranges::find(found, name, &std::pair<std::string, std::string>::first) != found.end()) continue;
    const std::optional<Value> value = look_up(repository, run, name);
    if (value) found.emplace_back(name, text_of(*value));
  }
  return found;
}

}  // namespace mlx::cmd
