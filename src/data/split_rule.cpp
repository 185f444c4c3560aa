// Split rules as TOML and as JSON.

#include "data/split_rule.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/error.h"
#include "base/json.h"

namespace mlx::data {
namespace {

// In the order of DivideBy.
constexpr std::array kDivideWords = {"fraction", "column", "group", "time", "stratified"};
constexpr std::array kPartNames = {"train", "valid", "test"};

DivideBy divide_by(const std::string& word) {
  return static_cast<DivideBy>(std::ranges::find(kDivideWords, word) - kDivideWords.begin());
}

std::vector<std::string> one_or_more(TomlReader& table, const char* key) {
  if (!table.has(key)) return {};
  return table.is_text(key) ? std::vector<std::string>{table.string(key)} : table.strings(key);
}

}  // namespace

const char* name_of(Part part) {
  return kPartNames[static_cast<std::size_t>(part)];
}

bool SplitRule::makes(Part part) const {
  if (part == Part::kTrain) return true;
  return part == Part::kValid ? valid > 0 || !valid_values.empty() : test > 0 || !test_values.empty();
}

SplitRule read_split_rule(TomlReader table) {
  SplitRule rule;
  const std::string word = table.one_of("by", {kDivideWords.begin(), kDivideWords.end()}, "fraction");
  rule.by = divide_by(word);
  const bool by_values = rule.by == DivideBy::kColumn, by_seed = !by_values && rule.by != DivideBy::kTime;
  if (by_values) {
    rule.valid_values = one_or_more(table, "valid"), rule.test_values = one_or_more(table, "test");
    for (const std::string& value : rule.valid_values)
      if (std::ranges::find(rule.test_values, value) != rule.test_values.end())
        table.fail_at("valid", fmt::format("'{}' is a value of test too", value));
  } else {
    rule.valid = table.number("valid", 0, 1, 0), rule.test = table.number("test", 0, 1, 0);
  }
  if (!rule.makes(Part::kValid) && !rule.makes(Part::kTest))
    table.fail_at("test", by_values ? "expected the column's values that mean test, or those that mean valid"
                                    : "expected the share of items for test, or one for valid");
  if (rule.valid + rule.test >= 1) table.fail_at("test", "the shares leave nothing for train");
  if (rule.by == DivideBy::kFraction && table.has("column"))
    table.fail_at("column", "it is for by = \"column\", \"group\", \"time\" and \"stratified\"");
  const bool needs_column = rule.by != DivideBy::kFraction && rule.by != DivideBy::kStratified;
  rule.column = needs_column ? table.string("column") : table.string("column", "");
  if (table.has("seed") && !by_seed) table.fail_at("seed", fmt::format("by = \"{}\" draws nothing", word));
  rule.seed = static_cast<std::uint64_t>(table.integer("seed", 0, std::numeric_limits<std::int64_t>::max(), 1));
  table.finish();
  return rule;
}

Json to_json(const SplitRule& rule) {
  Json json = {{"by", kDivideWords[static_cast<std::size_t>(rule.by)]}};
  const auto add = [&](const char* key, double share, const std::vector<std::string>& values) {
    if (!values.empty()) json[key] = values;
    if (share > 0) json[key] = share;
  };
  add("valid", rule.valid, rule.valid_values), add("test", rule.test, rule.test_values);
  json["seed"] = rule.seed;
  if (!rule.column.empty()) json["column"] = rule.column;
  return json;
}

SplitRule split_rule_from_json(const Json& json, const std::string& what) {
  SplitRule rule;
  rule.by = divide_by(json_string(json, "by", what));
  if (static_cast<std::size_t>(rule.by) >= kDivideWords.size())
    fail(ErrorKind::kCorrupt, "{}: a split by '{}' is not known", what, json_string(json, "by", what));
  const auto read = [&](const char* key, double& share, std::vector<std::string>& values) {
    if (!json.contains(key)) return;
    if (!json[key].is_array()) {
      share = json_number(json, key, what);
      return;
    }
    for (const Json& value : json[key])
      if (value.is_string()) values.push_back(value.get<std::string>());
  };
  read("valid", rule.valid, rule.valid_values), read("test", rule.test, rule.test_values);
  rule.seed = static_cast<std::uint64_t>(json_int(json, "seed", what));
  if (json.contains("column")) rule.column = json_string(json, "column", what);
  return rule;
}

}  // namespace mlx::data
