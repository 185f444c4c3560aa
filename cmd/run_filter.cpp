// Conditions and keys over runs.
#include "cmd/run_filter.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <compare>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/toml.h"

namespace mlx::cmd {
namespace {

struct Figure {
  std::optional<double> number;
  std::string text;  // where it is no number
};

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Figure figure_of(const Json& value) {
  if (value.is_number()) return {value.get<double>(), {}};
  return {std::nullopt, value.is_string() ? value.get<std::string>() : value.dump()};
}

Json document(const std::string& text, const registry::Run& run) {
  return text.empty() ? Json::object() : parse_json(text, "run:" + run.id);
}

// "train.optimizer.name" in nested objects; null where there is no such member.
const Json* member(const Json& object, std::string_view path) {
  if (!object.is_object()) return nullptr;
  const std::size_t dot = path.find('.');
  const auto found = object.find(std::string(path.substr(0, dot)));
  if (found == object.end()) return nullptr;
  return dot == std::string_view::npos ? &*found : member(*found, path.substr(dot + 1));
}

std::optional<Figure> look_up(registry::Repository& repository, const registry::Run& run, const std::string& name) {
  if (name == "command") return Figure{std::nullopt, run.command};
  if (name == "status") return Figure{std::nullopt, run.status};
  if (name == "title") return Figure{std::nullopt, run.title};
  if (name == "seconds" && run.ended != 0) return Figure{static_cast<double>(run.ended - run.started) / 1e6, {}};
  if (name.find('/') != std::string::npos) {
    const std::vector<registry::MetricPoint> points = registry::metrics(repository, run.id, name);
    if (points.empty()) return std::nullopt;
    return Figure{points.back().value, {}};
  }
  for (const std::string& text : {run.summary, run.params}) {
    const Json whole = document(text, run);
    if (const Json* found = member(whole, name)) return figure_of(*found);
  }
  return std::nullopt;
}

struct Condition {
  std::string name, operation, text;
  std::optional<double> number;
};

Condition parse_condition(const std::string& text) {
  const std::size_t at = text.find_first_of("<>=!");
  const std::size_t end = at == std::string::npos ? at : text.find_first_not_of("<>=!", at);
  Condition condition;
  if (end != std::string::npos) {
    const auto trimmed = [](std::string part) {
      part.erase(0, std::min(part.find_first_not_of(' '), part.size()));
      part.erase(part.find_last_not_of(' ') + 1);
      return part;
    };
    condition = {trimmed(text.substr(0, at)), text.substr(at, end - at), trimmed(text.substr(end)), {}};
    condition.number = number_of(condition.text);
    if (condition.operation == "==") condition.operation.pop_back();
  }
  const bool known = std::ranges::any_of(std::initializer_list<const char*>{"<", "<=", ">", ">=", "=", "!="},
                                         [&](const char* one) { return condition.operation == one; });
  if (!known || condition.name.empty() || condition.text.empty()) {
    throw Error(ErrorKind::kUsage, fmt::format("--where \"{}\": expected NAME, an operator and a value", text),
                "like --where 'valid_accuracy>=0.9'; operators are < <= > >= = !=");
  }
  if (!condition.number && condition.operation.find_first_of("<>") != std::string::npos)
    fail(ErrorKind::kUsage, "--where \"{}\": '{}' compares numbers", text, condition.operation);
  return condition;
}

// Settings are kept in f32, so that 0.9 as it is written is none of them to the last digit of a double.
std::partial_ordering compare(double a, double b) {
  const bool fractions = std::isfinite(a) && std::isfinite(b) && a != std::floor(a);
  if (fractions && static_cast<float>(a) == static_cast<float>(b)) return std::partial_ordering::equivalent;
  return a <=> b;
}

bool holds(const Condition& condition, const Figure& figure) {
  const std::string& operation = condition.operation;
  if (!figure.number || !condition.number) {
    if (operation != "=" && operation != "!=") return false;
    const bool equal = !figure.number && figure.text == condition.text;
    return equal == (operation == "=");
  }
  const std::partial_ordering order = compare(*figure.number, *condition.number);
  if (operation == "=") return order == 0;
  if (operation == "!=") return order != 0;
  if (operation == "<") return order < 0;
  if (operation == "<=") return order <= 0;
  return operation == ">" ? order > 0 : order >= 0;
}

// Names that some run's figures have, for the did-you-mean.
[[noreturn]] void refuse_name(const std::vector<registry::Run>& runs, const std::string& name) {
  std::vector<std::string> names{"command", "status", "seconds", "title"};
  for (const registry::Run& run : runs) {
    const Json summary = document(run.summary, run);
    for (const auto& [key, value] : summary.items()) names.push_back(key);
  }
  const std::string close = did_you_mean(name, names);
  throw Error(ErrorKind::kNotFound,
              fmt::format("no run has '{}'{}", name, close.empty() ? "" : fmt::format("; did you mean '{}'?", close)),
              "`mlx show run:ID` lists figures and parameters");
}

// By run; throws where none of `all`, whatever was asked before, has it.
std::vector<std::optional<Figure>> figures(registry::Repository& repository, const std::vector<registry::Run>& all,
                                           const std::vector<registry::Run>& runs, const std::string& name) {
  std::vector<std::optional<Figure>> found;
  found.reserve(runs.size());
  for (const registry::Run& run : runs) found.push_back(look_up(repository, run, name));
  const auto has_value = [](const auto& figure) { return figure.has_value(); };
  const auto has_it = [&](const registry::Run& run) { return look_up(repository, run, name).has_value(); };
  if (!all.empty() && std::ranges::none_of(found, has_value) && std::ranges::none_of(all, has_it))
    refuse_name(all, name);
  return found;
}

// Numbers before texts before nothing, whichever way; NaN is nothing.
int rank_of(const std::optional<Figure>& figure) {
  if (!figure || (figure->number && std::isnan(*figure->number))) return 2;
  return figure->number ? 0 : 1;
}

void sort_by(const RunFilter& filter, registry::Repository& repository, const std::vector<registry::Run>& all,
             std::vector<registry::Run>& runs) {
  const std::vector<std::optional<Figure>> keys = figures(repository, all, runs, filter.sort);
  std::vector<std::size_t> order(runs.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    const int rank = rank_of(keys[a]);
    if (rank != rank_of(keys[b])) return rank < rank_of(keys[b]);
    if (rank == 2) return false;
    const Figure& first = filter.reverse ? *keys[b] : *keys[a];
    const Figure& second = filter.reverse ? *keys[a] : *keys[b];
    return rank == 0 ? *first.number < *second.number : first.text < second.text;
  });
  std::vector<registry::Run> sorted;
  sorted.reserve(runs.size());
  for (const std::size_t at : order) sorted.push_back(std::move(runs[at]));
  runs = std::move(sorted);
}

}  // namespace

void apply(const RunFilter& filter, registry::Repository& repository, std::vector<registry::Run>& runs) {
  std::vector<registry::Run> all;  // whose figures are known, for names that no run has
  if (!filter.where.empty() || !filter.sort.empty()) all = runs;
  if (filter.reverse && filter.sort.empty()) std::ranges::reverse(runs);
  for (const std::string& text : filter.where) {
    const Condition condition = parse_condition(text);
    const std::vector<std::optional<Figure>> found = figures(repository, all, runs, condition.name);
    std::vector<registry::Run> kept;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (found[i] && holds(condition, *found[i])) kept.push_back(std::move(runs[i]));
    }
    runs = std::move(kept);
  }
  if (!filter.status.empty()) std::erase_if(runs, [&](const auto& run) { return run.status != filter.status; });
  if (!filter.sort.empty()) sort_by(filter, repository, all, runs);
}

std::vector<std::pair<std::string, std::string>> looked_at(const RunFilter& filter, registry::Repository& repository,
                                                           const registry::Run& run) {
  std::vector<std::string> names;
  for (const std::string& where : filter.where) names.push_back(parse_condition(where).name);
  if (!filter.sort.empty()) names.push_back(filter.sort);
  std::vector<std::pair<std::string, std::string>> found;
  for (const std::string& name : names) {
    if (name == "command" || name == "status" || name == "seconds" || name == "title") continue;
    if (std::ranges::find(found, name, &std::pair<std::string, std::string>::first) != found.end()) continue;
    const std::optional<Figure> figure = look_up(repository, run, name);
    if (figure) found.emplace_back(name, figure->number ? fmt::format("{:.4g}", *figure->number) : figure->text);
  }
  return found;
}

}  // namespace mlx::cmd
