// Sketches while items come, cells afterwards.
#include "monitor/reference.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/json.h"

namespace mlx::monitor {
namespace {

constexpr std::size_t kMostHeld = 100'000;  // different values of a category, while items come
constexpr std::size_t kLongestValue = 200;

std::string cut_value(std::string_view value) {
  if (value.size() <= kLongestValue) return std::string(value);
  std::size_t end = kLongestValue;
  while (end > 0 && (static_cast<unsigned char>(value[end]) & 0xC0) == 0x80) --end;
  return std::string(value.substr(0, end));
}

// At most kMostPoints of the values, at equal distances in rank, the largest among them; and one just below all, so
// that values outside of what was seen have cells of their own.
void fill_points(const data::Quantiles& numbers, ColumnReference& to) {
  const std::vector<std::pair<double, std::uint64_t>> weighted = numbers.weighted();
  std::uint64_t all = 0;
  for (const auto& [value, weight] : weighted) all += weight;
  if (!weighted.empty()) {
    to.points.push_back(std::nextafter(weighted[0].first, -std::numeric_limits<double>::infinity()));
    to.counts.push_back(0);
  }
  std::uint64_t up_to = 0, told = 0;
  for (std::size_t i = 0; i < weighted.size(); ++i) {
    up_to += weighted[i].second;
    if (i + 1 < weighted.size() && weighted[i + 1].first == weighted[i].first) continue;
    const double due = static_cast<double>(all) * static_cast<double>(to.points.size()) /
                       static_cast<double>(ColumnReference::kMostPoints);
    if (static_cast<double>(up_to) < due && up_to < all) continue;
    to.points.push_back(weighted[i].first), to.counts.push_back(up_to - told);
    told = up_to;
  }
  to.counts.push_back(0);
}

void fill_values(const std::map<std::string, std::uint64_t, std::less<>>& values, std::uint64_t others,
                 ColumnReference& to) {
  std::vector<std::pair<std::string, std::uint64_t>> sorted(values.begin(), values.end());
  std::ranges::stable_sort(sorted, std::greater<>(), &std::pair<std::string, std::uint64_t>::second);
  for (auto& [value, count] : sorted) {
    if (to.values.size() < ColumnReference::kMostValues)
      to.values.push_back(value), to.counts.push_back(count);
    else
      others += count;
  }
  to.counts.push_back(others);
}

std::uint64_t count_from(const Json& json, const std::string& what) {
  if (!json.is_number_unsigned()) fail(ErrorKind::kCorrupt, "{}: a count is not a whole number from 0 on", what);
  return json.get<std::uint64_t>();
}

ColumnReference column_from_json(const Json& json, const std::string& what) {
  ColumnReference out;
  out.column.name = json_string(json, "name", what);
  const std::string kind = json_string(json, "kind", what);
  if (kind != "number" && kind != "category") fail(ErrorKind::kCorrupt, "{}: unknown kind '{}'", what, kind);
  out.column.number = kind == "number";
  const Json prediction = json.value("prediction", Json(false));
  if (!prediction.is_boolean()) fail(ErrorKind::kCorrupt, "{}: 'prediction' is neither true nor false", what);
  out.column.prediction = prediction.get<bool>();
  out.missing = count_from(json.value("missing", Json()), what);
  for (const Json& count : json_array(json, "counts", what)) out.counts.push_back(count_from(count, what));
  if (out.column.number) {
    for (const Json& point : json_array(json, "points", what)) {
      if (!point.is_number() || !std::isfinite(point.get<double>()))
        fail(ErrorKind::kCorrupt, "{}: a point is no finite number", what);
      out.points.push_back(point.get<double>());
    }
    if (std::ranges::adjacent_find(out.points, std::greater_equal<>()) != out.points.end())
      fail(ErrorKind::kCorrupt, "{}: the points of '{}' do not ascend", what, out.column.name);
  } else {
    for (const Json& value : json_array(json, "values", what)) {
      if (!value.is_string()) fail(ErrorKind::kCorrupt, "{}: a value is no text", what);
      out.values.push_back(value.get<std::string>());
    }
  }
  if (out.counts.size() != out.points.size() + out.values.size() + 1)
    fail(ErrorKind::kCorrupt, "{}: '{}' has {} counts for {} cells", what, out.column.name, out.counts.size(),
         out.points.size() + out.values.size() + 1);
  return out;
}

}  // namespace

std::uint64_t ColumnReference::seen() const {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

std::size_t ColumnReference::cell_of(double number) const {
  return static_cast<std::size_t>(std::ranges::lower_bound(points, number) - points.begin());
}

Json to_json(const Reference& reference) {
  Json columns = Json::array();
  for (const ColumnReference& each : reference.columns) {
    Json column = {{"name", each.column.name},
                   {"kind", each.column.number ? "number" : "category"},
                   {"prediction", each.column.prediction},
                   {"missing", each.missing},
                   {"counts", each.counts}};
    if (each.column.number)
      column["points"] = each.points;
    else
      column["values"] = each.values;
    columns.push_back(std::move(column));
  }
  return {{"schema", kReferenceFormat},
          {"data", reference.data},
          {"predictions", reference.predictions},
          {"columns", std::move(columns)}};
}

Reference reference_from_json(const Json& json, const std::string& what) {
  if (json_string(json, "schema", what) != kReferenceFormat)
    fail(ErrorKind::kCorrupt, "{}: not of the form {}", what, kReferenceFormat);
  Reference out;
  out.data = json_string(json, "data", what), out.predictions = json_string(json, "predictions", what);
  for (const Json& column : json_array(json, "columns", what)) out.columns.push_back(column_from_json(column, what));
  return out;
}

Recorder::Recorder(std::vector<Column> columns) : columns_(std::move(columns)), sketches_(columns_.size()) {}

void Recorder::add(std::size_t column, double number) {
  if (!data::is_measured(number)) return;
  ++sketches_[column].seen;
  sketches_[column].numbers.add(number);
}

void Recorder::add(std::size_t column, std::string_view value) {
  Sketch& sketch = sketches_[column];
  ++sketch.seen;
  const std::string key = cut_value(value);
  if (const auto known = sketch.values.find(key); known != sketch.values.end())
    ++known->second;
  else if (sketch.values.size() < kMostHeld)
    sketch.values.emplace(key, 1);
  else
    ++sketch.others;
}

std::vector<ColumnReference> Recorder::finish() const {
  std::vector<ColumnReference> out;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    ColumnReference& column = out.emplace_back();
    column.column = columns_[i], column.missing = items_ - sketches_[i].seen;
    if (columns_[i].number)
      fill_points(sketches_[i].numbers, column);
    else
      fill_values(sketches_[i].values, sketches_[i].others, column);
  }
  return out;
}

Window::Window(const std::vector<ColumnReference>& columns) : columns_(columns), cells_(columns.size()) {
  for (std::size_t i = 0; i < columns.size(); ++i)
    for (std::size_t v = 0; v < columns[i].values.size(); ++v) cells_[i].places.emplace(columns[i].values[v], v);
  clear();
}

void Window::clear() {
  items_ = 0;
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    cells_[i].counts.assign(columns_[i].counts.size(), 0);
    cells_[i].unknown.clear(), cells_[i].seen = 0;
  }
}

void Window::add(std::size_t column, double number) {
  if (!data::is_measured(number)) return;
  ++cells_[column].seen, ++cells_[column].counts[columns_[column].cell_of(number)];
}

void Window::add(std::size_t column, std::string_view value) {
  Cells& cells = cells_[column];
  std::string key = cut_value(value);
  const auto known = cells.places.find(key);
  ++cells.seen, ++cells.counts[known == cells.places.end() ? cells.counts.size() - 1 : known->second];
  if (known != cells.places.end() || cells.unknown.size() >= kMostUnknown) return;
  if (std::ranges::find(cells.unknown, key) == cells.unknown.end()) cells.unknown.push_back(std::move(key));
}

}  // namespace mlx::monitor
