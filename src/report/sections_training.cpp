// How the model was made: curves, environment, configuration, and the commands that reproduce it.
#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/json.h"
#include "report/chart.h"
#include "report/html.h"
#include "report/sections.h"

namespace mlx::report {
namespace {

constexpr std::size_t kLinePoints = 60, kFaintPoints = 400;

Series series(const Facts& facts, const std::string& metric, const std::string& name, const std::string& kind) {
  Series out{name, kind, {}, {}};
  const auto found = facts.metrics.find(metric);
  if (found == facts.metrics.end()) return out;
  Points points;
  for (const auto& [step, value] : found->second)
    if (std::isfinite(value))
      points.emplace_back(facts.steps_per_epoch > 0 ? step / facts.steps_per_epoch : step, value);
  out.points = thinned(points, kLinePoints);
  if (points.size() > kLinePoints) out.faint = thinned(points, kFaintPoints);
  return out;
}

std::string chart(const Facts& facts, const std::string& metric, const std::string& title, bool share) {
  LineChart chart;
  chart.title = title;
  chart.x_title = facts.steps_per_epoch > 0 ? "epoch" : "step";
  chart.percent = share;
  chart.series = {series(facts, "train/" + metric, "train", "train"),
                  series(facts, "valid/" + metric, "valid", "valid")};
  const bool empty = std::ranges::all_of(chart.series, [](const Series& s) { return s.points.empty(); });
  return empty ? "" : to_svg(chart);
}

std::string shown(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// A list of objects (layers) as a line each: "1. conv=16, kernel=3, stride=1".
std::string lines_of(const Json& list) {
  std::string out;
  int number = 0;
  for (const Json& item : list) {
    out += fmt::format("{}{}. ", number ? "\n" : "", number + 1);
    ++number;
    bool first = true;
    for (const auto& [key, value] : item.items()) {
      out += (first ? "" : ", ") + key + "=" + shown(value);
      first = false;
    }
  }
  return out;
}

bool is_list_of_objects(const Json& value) {
  return value.is_array() && !value.empty() &&
         std::ranges::all_of(value, [](const Json& item) { return item.is_object(); });
}

// Nested keys as "train.optimizer.name"; lists as JSON.
void flatten(const Json& value, const std::string& prefix, std::vector<std::pair<std::string, std::string>>& to) {
  if (!value.is_object()) {
    to.emplace_back(prefix, is_list_of_objects(value) ? lines_of(value) : shown(value));
    return;
  }
  for (const auto& [key, inner] : value.items()) flatten(inner, prefix.empty() ? key : prefix + "." + key, to);
}

std::string key_table(const std::string& title, const std::string& json) {
  std::vector<std::pair<std::string, std::string>> pairs;
  if (!json.empty()) flatten(parse_json(json, "record of a run"), "", pairs);
  Table table;
  table.columns = {{title, false}, {"Value", false}};
  for (const auto& [key, value] : pairs)
    if (!key.empty() && !value.empty()) table.rows.push_back({escape(key), "<code>" + escape(value) + "</code>"});
  return table.rows.empty() ? "" : to_html(table);
}

}  // namespace

std::string training_section(const Facts& facts) {
  if (!facts.training) return "";
  const std::string curves = chart(facts, "loss", "Loss", false) + chart(facts, "accuracy", "Accuracy", true);
  if (curves.empty()) return "";
  const registry::Run& run = *facts.training;
  std::string about = fmt::format("<p class=\"soft\"><code>{}</code> · run:{} · {}", escape(run.title), escape(run.id),
                                  escape(iso_time(run.started)));
  if (run.status != registry::RunStatus::kDone)
    about += " · <span class=\"bad\">" + escape(name_of(run.status)) + "</span>";
  return section("training", "Training",
                 about + "</p>\n<div class=\"pair\">\n" + curves + "</div>\n" + ranks_part(facts));
}

std::string environment_section(const Facts& facts) {
  if (!facts.training) return "";
  const registry::Run& run = *facts.training;
  const std::string config = key_table("Configuration", run.params),
                    machine = key_table("Environment", run.environment), code = key_table("Code", run.code);
  if (config.empty() && machine.empty() && code.empty()) return "";
  return section("environment", "Configuration and environment",
                 "<div class=\"pair\">\n<div>" + config + "</div>\n<div>" + machine + code + "</div>\n</div>\n");
}

std::string reproduction_section(const Facts& facts) {
  std::string lines;
  const Json code = facts.training && !facts.training->code.empty() ? parse_json(facts.training->code, "code of a run")
                                                                    : Json::object();
  if (code.contains("head") && code["head"].is_string() && !code["head"].get<std::string>().empty())
    lines += "git checkout " + code["head"].get<std::string>() +
             (code.contains("dirty") && code["dirty"] == true ? "   # and the recorded local changes" : "") + "\n";
  if (!lines.empty()) lines += "mlx checkout\n";
  std::vector<std::string> seen;
  for (const registry::Run& run : facts.runs) {
    if (run.status != registry::RunStatus::kDone || run.title.empty() ||
        std::ranges::find(seen, run.title) != seen.end())
      continue;
    seen.push_back(run.title);
    lines += run.title + "\n";
  }
  if (seen.empty()) return "";
  return section("reproduce", "Make it again",
                 "<p class=\"soft\">The same data, configuration, seed and code give the same digest.</p>\n<pre>" +
                     escape(lines) + "</pre>\n");
}

}  // namespace mlx::report
