// The population stability index and the Kolmogorov-Smirnov distance from kept statistics.

#include "data/quality/drift.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/json.h"

namespace mlx::data {
namespace {

constexpr double kLeastShare = 1e-4;  // in place of 0, whose logarithm is infinite
constexpr std::size_t kMostNamed = 20;

// A column of infinite numbers alone has none.
bool has_percentiles(const ColumnStatistics& column) {
  return column.is_number() && column.percentiles.size() == 101;
}

// The share of numbers that are at most x, from their percentiles.
double share_up_to(const ColumnStatistics& column, double x) {
  const std::vector<double>& p = column.percentiles;
  const auto above = static_cast<std::size_t>(std::ranges::upper_bound(p, x) - p.begin());
  if (above == 0) return 0;
  if (above == p.size()) return 1;
  const double part = p[above] > p[above - 1] ? (x - p[above - 1]) / (p[above] - p[above - 1]) : 0;
  return (static_cast<double>(above - 1) + part) / static_cast<double>(p.size() - 1);
}

double index_of_shares(const std::vector<std::pair<double, double>>& shares) {
  double sum = 0;
  for (auto [before, after] : shares) {
    before = std::max(before, kLeastShare), after = std::max(after, kLeastShare);
    sum += (after - before) * std::log(after / before);
  }
  return sum;
}

std::map<std::string, double> shares_of(const ColumnStatistics& column) {
  std::map<std::string, double> out;
  double rest = static_cast<double>(column.count - column.missing);
  const double total = std::max(rest, 1.0);
  for (const ValueCount& each : column.top)
    out[each.value] = static_cast<double>(each.count) / total, rest -= static_cast<double>(each.count);
  return out;
}

// Numbers with few values, such as 0 and 1, are compared value by value.
bool by_value(const ColumnStatistics& column) {
  return column.top_exact && column.distinct_exact && column.distinct <= column.top.size();
}

double missing_share(const ColumnStatistics& column) {
  return column.count == 0 ? 0 : static_cast<double>(column.missing) / static_cast<double>(column.count);
}

std::vector<std::string> values_without(const ColumnStatistics& of, const ColumnStatistics& without) {
  std::vector<std::string> out;
  std::set<std::string> there;
  for (const ValueCount& each : without.top) there.insert(each.value);
  for (const ValueCount& each : of.top)
    if (!there.contains(each.value) && out.size() < kMostNamed) out.push_back(each.value);
  return out;
}

ColumnDrift drift_of(const std::string& split, const ColumnStatistics* before, const ColumnStatistics* after) {
  ColumnDrift out;
  out.split = split, out.column = before ? before->name : after->name;
  out.type_before = before ? before->type : "-", out.type_after = after ? after->type : "-";
  if (!before || !after) return out;
  out.psi = stability_index(*before, *after), out.ks = largest_distance(*before, *after);
  out.mean_before = before->mean, out.mean_after = after->mean;
  out.missing_before = missing_share(*before), out.missing_after = missing_share(*after);
  if (!before->is_number() && by_value(*before) && by_value(*after)) {
    out.new_values = values_without(*after, *before);
    out.lost_values = values_without(*before, *after);
  }
  return out;
}

}  // namespace

double stability_index(const ColumnStatistics& before, const ColumnStatistics& after) {
  if (before.count == before.missing || after.count == after.missing) return 0;
  std::vector<std::pair<double, double>> shares;
  if (by_value(before) && by_value(after)) {
    const std::map<std::string, double> left = shares_of(before), right = shares_of(after);
    std::set<std::string> values;
    for (const auto& [value, share] : left) values.insert(value);
    for (const auto& [value, share] : right) values.insert(value);
    for (const std::string& value : values) {
      const auto a = left.find(value), b = right.find(value);
      shares.emplace_back(a == left.end() ? 0 : a->second, b == right.end() ? 0 : b->second);
    }
    return index_of_shares(shares);
  }
  if (!has_percentiles(before) || !has_percentiles(after)) return 0;
  double left = 0, right = 0;  // tenths of what was there before
  for (std::size_t i = 10; i <= 100; i += 10) {
    const double edge = before.percentiles[i];
    const double a = i == 100 ? 1 : share_up_to(before, edge), b = i == 100 ? 1 : share_up_to(after, edge);
    if (a > left || b > right) shares.emplace_back(a - left, b - right);
    left = a, right = b;
  }
  return index_of_shares(shares);
}

double largest_distance(const ColumnStatistics& before, const ColumnStatistics& after) {
  if (!has_percentiles(before) || !has_percentiles(after)) return 0;
  double largest = 0;
  for (const auto* const points : {&before.percentiles, &after.percentiles})
    for (const double x : *points)
      largest = std::max(largest, std::abs(share_up_to(before, x) - share_up_to(after, x)));
  return largest;
}

std::vector<SplitDrift> drift_between(const Statistics& before, const Statistics& after) {
  std::set<std::string> names;
  for (const auto& [name, split] : before.splits) names.insert(name);
  for (const auto& [name, split] : after.splits) names.insert(name);
  const SplitStatistics none;
  std::vector<SplitDrift> out;
  for (const std::string& name : names) {
    const auto a = before.splits.find(name), b = after.splits.find(name);
    const SplitStatistics& old = a == before.splits.end() ? none : a->second;
    const SplitStatistics& now = b == after.splits.end() ? none : b->second;
    SplitDrift split{name, old.items, now.items, {}};
    for (const ColumnStatistics& column : now.columns)
      split.columns.push_back(drift_of(name, old.column(column.name), &column));
    for (const ColumnStatistics& column : old.columns)
      if (!now.column(column.name)) split.columns.push_back(drift_of(name, &column, nullptr));
    std::ranges::stable_sort(split.columns, std::greater<>(), &ColumnDrift::psi);
    out.push_back(std::move(split));
  }
  return out;
}

Json to_json(const std::vector<SplitDrift>& drift) {
  Json list = Json::array();
  for (const SplitDrift& split : drift) {
    Json columns = Json::array();
    for (const ColumnDrift& each : split.columns) {
      columns.push_back({{"column", each.column},
                         {"type_before", each.type_before},
                         {"type_after", each.type_after},
                         {"psi", each.psi},
                         {"ks", each.ks},
                         {"mean_before", each.mean_before},
                         {"mean_after", each.mean_after},
                         {"missing_before", each.missing_before},
                         {"missing_after", each.missing_after},
                         {"new_values", each.new_values},
                         {"lost_values", each.lost_values}});
    }
    list.push_back({{"split", split.split},
                    {"items_before", split.items_before},
                    {"items_after", split.items_after},
                    {"columns", columns}});
  }
  return list;
}

}  // namespace mlx::data
