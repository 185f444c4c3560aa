// A schema as JSON, part of model.json (mlx-format-model(5)); nothing that is read is trusted. And the facts of a
// table, for a run's summary.

#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "data/rows.h"

namespace mlx::data {
namespace {

constexpr std::array kTargetKinds = {TargetKind::kClass, TargetKind::kLabels, TargetKind::kNumbers};

Json columns_to_json(const std::vector<Column>& columns) {
  Json out = Json::array();
  for (const Column& column : columns) {
    if (column.is_number()) {
      out.push_back({{"name", column.name}, {"mean", column.mean}, {"std", column.std}});
      if (column.indicator) out.back()["indicator"] = true;
    } else {
      out.push_back({{"name", column.name}, {"values", column.values}});
    }
  }
  return out;
}

// Reads a mean or a standard deviation, bounded so that no value overflows a float.
double number_from(const Json& object, const char* key, const std::string& what) {
  const double value = json_number(object, key, what);
  if (!std::isfinite(value)) fail(ErrorKind::kCorrupt, "{}: '{}': expected a finite number", what, key);
  return value;
}

Column column_from_json(const Json& json, const std::string& what) {
  if (!json.is_object()) fail(ErrorKind::kCorrupt, "{}: expected objects, got {}", what, json.type_name());
  Column column;
  column.name = json_string(json, "name", what);
  const std::string where = fmt::format("{}: '{}'", what, column.name);
  if (!json.contains("values")) {
    column.mean = number_from(json, "mean", where);
    column.std = number_from(json, "std", where);
    if (!(column.std > 0)) fail(ErrorKind::kCorrupt, "{}: 'std': expected a number above 0", where);
    column.indicator = json.contains("indicator") && json_bool(json, "indicator", where);
    return column;
  }
  std::set<std::string> seen;
  for (const Json& value : json_array(json, "values", where)) {
    if (!value.is_string()) fail(ErrorKind::kCorrupt, "{}: 'values': expected strings", where);
    column.values.push_back(value.get<std::string>());
    if (!seen.insert(column.values.back()).second)
      fail(ErrorKind::kCorrupt, "{}: 'values': '{}' occurs twice", where, column.values.back());
  }
  if (column.values.empty()) fail(ErrorKind::kCorrupt, "{}: 'values': expected at least one", where);
  return column;
}

std::vector<Column> columns_from_json(const Json& json, const char* key, const std::string& what) {
  std::vector<Column> columns;
  std::set<std::string> names;
  for (const Json& item : json_array(json, key, what)) {
    columns.push_back(column_from_json(item, fmt::format("{}: '{}'", what, key)));
    if (!names.insert(columns.back().name).second)
      fail(ErrorKind::kCorrupt, "{}: '{}': '{}' occurs twice", what, key, columns.back().name);
  }
  if (columns.empty()) fail(ErrorKind::kCorrupt, "{}: '{}': expected at least one", what, key);
  return columns;
}

}  // namespace

Json to_json(const RowSchema& schema) {
  return {{"features", columns_to_json(schema.features)},
          {"missing", schema.impute ? "mean" : "error"},
          {"target", name_of(schema.kind)},
          {"targets", columns_to_json(schema.targets)}};
}

Json to_json(const TableFacts& facts) {
  Json columns = Json::array();
  for (const ColumnFacts& column : facts.columns) {
    Json one = {{"name", column.name}, {"kind", column.kind}, {"role", column.target ? "target" : "feature"}};
    if (column.values > 0) one["values"] = column.values;
    if (column.missing > 0) one["missing"] = column.missing;
    columns.push_back(std::move(one));
  }
  Json out = {{"columns", std::move(columns)}, {"file", facts.file}, {"rows", facts.rows}};
  if (!facts.found_out.empty()) out["found_out"] = facts.found_out;
  return out;
}

std::string columns_text(const Json& facts) {
  constexpr std::size_t kShown = 24;
  const std::string what = "table";
  std::string features, targets;
  std::size_t shown = 0;
  for (const Json& column : json_array(facts, "columns", what)) {
    const bool target = json_string(column, "role", what) == "target";
    if (!target && ++shown > kShown) continue;
    std::string& text = target ? targets : features;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", json_string(column, "name", what),
                        json_string(column, "kind", what));
    if (column.contains("values")) text += fmt::format(" of {}", json_int(column, "values", what));
    if (column.contains("missing")) text += fmt::format(" ({} missing)", json_int(column, "missing", what));
  }
  if (shown > kShown) features += fmt::format(" and {} more", shown - kShown);
  const std::string found_out = facts.contains("found_out") ? json_string(facts, "found_out", what) : "";
  return fmt::format("columns of {}{}: {}; to learn: {}", json_string(facts, "file", what),
                     found_out.empty() ? "" : fmt::format(" ({})", found_out), features, targets);
}

RowSchema schema_from_json(const Json& json, const std::string& what) {
  RowSchema schema;
  const std::string kind = json_string(json, "target", what);
  bool known = false;
  for (const TargetKind each : kTargetKinds) {
    if (kind == name_of(each)) schema.kind = each, known = true;
  }
  if (!known) fail(ErrorKind::kCorrupt, "{}: 'target': unknown word '{}'", what, kind);
  const std::string missing = json_string(json, "missing", what);
  if (missing != "mean" && missing != "error")
    fail(ErrorKind::kCorrupt, "{}: 'missing': unknown word '{}'", what, missing);
  schema.impute = missing == "mean";
  schema.features = columns_from_json(json, "features", what);
  schema.targets = columns_from_json(json, "targets", what);
  const bool class_fits = schema.targets.size() == 1 && !schema.targets[0].is_number();
  bool numbers = true;
  for (const Column& column : schema.targets) numbers = numbers && column.is_number();
  if (schema.kind == TargetKind::kClass ? !class_fits : !numbers)
    fail(ErrorKind::kCorrupt, "{}: 'targets' do not match 'target'", what);
  return schema;
}

}  // namespace mlx::data
