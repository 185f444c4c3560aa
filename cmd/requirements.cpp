#include "cmd/requirements.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/json.h"
#include "base/toml.h"

namespace mlx::cmd {
namespace {

std::map<std::string, double> named_numbers(const Json& evaluation) {
  std::map<std::string, double> named;
  for (const Json* object : {&evaluation, &evaluation.at("metrics")}) {
    for (const auto& [name, value] : object->items()) {
      if (value.is_number()) named.emplace(name, value.get<double>());
    }
  }
  return named;
}

std::string written(const Condition& condition) {
  return fmt::format("{} {} {}", condition.name, sign_of(condition.comparison), condition.text);
}

}  // namespace

std::vector<Condition> parse_requirements(const std::vector<std::string>& texts) {
  std::vector<Condition> requirements;
  for (const std::string& text : texts) {
    requirements.push_back(parse_condition(text, "--require", "accuracy >= 0.93"));
    if (!requirements.back().number)
      fail(ErrorKind::kUsage, "--require \"{}\": '{}' is not a number", text, requirements.back().text);
  }
  return requirements;
}

std::vector<Verdict> judge(const std::vector<Condition>& requirements, const Json& evaluation) {
  const std::map<std::string, double> named = named_numbers(evaluation);
  std::vector<Verdict> verdicts;
  for (const Condition& condition : requirements) {
    const auto found = named.find(condition.name);
    if (found == named.end()) {
      std::vector<std::string> names;
      names.reserve(named.size());
      for (const auto& [name, value] : named) names.push_back(name);
      const std::string meant = did_you_mean(condition.name, names);
      throw Error(
          ErrorKind::kUsage, fmt::format("--require: this evaluation has no metric '{}'", condition.name),
          meant.empty() ? fmt::format("it has {}", fmt::join(names, ", ")) : fmt::format("did you mean '{}'?", meant));
    }
    verdicts.push_back({condition, found->second, holds(condition, {found->second, {}})});
  }
  return verdicts;
}

bool all_met(const std::vector<Verdict>& verdicts) {
  return std::ranges::all_of(verdicts, &Verdict::met);
}

void print_verdicts(const std::vector<Verdict>& verdicts, Context& context) {
  if (!verdicts.empty()) context.line("");
  for (const Verdict& verdict : verdicts) {
    const std::string text = fmt::format("{}: {}", written(verdict.condition),
                                         verdict.met ? "met" : fmt::format("not met, it is {}", verdict.value));
    context.line("  " + (verdict.met ? context.green(text) : context.red(text)));
  }
}

Json verdicts_json(const std::vector<Verdict>& verdicts) {
  Json list = Json::array();
  for (const Verdict& verdict : verdicts)
    list.push_back({{"condition", written(verdict.condition)}, {"value", verdict.value}, {"met", verdict.met}});
  return list;
}

}  // namespace mlx::cmd
