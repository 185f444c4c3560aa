// Pearson's correlation, the correlation ratio and Cramér's V.

#include "data/quality/associations.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace mlx::data {
namespace {

bool holds_number(const ObservedField& field) {
  return (field.type == ValueType::kInt || field.type == ValueType::kFloat) && is_measured(field.number);
}
std::string group_name(const ObservedField& field) {
  return field.text.empty() ? fmt::format("{}", field.number) : std::string(field.text.substr(0, 60));
}

// The entry of `key`; null once there are `most` others.
template <typename Map>
auto* entry_of(Map& map, const std::string& key, std::size_t most) {
  const auto found = map.find(key);
  if (found != map.end()) return &found->second;
  return map.size() < most ? &map[key] : nullptr;
}

// The share of a number's variance that the groups explain, as a root.
double correlation_ratio(const std::map<std::string, Moments, std::less<>>& groups) {
  double count = 0, sum = 0, within = 0;
  for (const auto& [name, group] : groups) {
    count += static_cast<double>(group.count), sum += group.mean * static_cast<double>(group.count);
    within += group.squares;
  }
  double between = 0;
  for (const auto& [name, group] : groups)
    between += static_cast<double>(group.count) * (group.mean - sum / count) * (group.mean - sum / count);
  return between + within > 0 ? std::sqrt(between / (between + within)) : 0;
}

double cramers_v(const std::map<std::string, std::map<std::string, std::uint64_t>, std::less<>>& counts) {
  std::map<std::string, double> columns;
  double total = 0;
  for (const auto& [value, classes] : counts)
    for (const auto& [name, count] : classes)
      columns[name] += static_cast<double>(count), total += static_cast<double>(count);
  if (counts.size() < 2 || columns.size() < 2) return 0;
  double chi = 0;
  for (const auto& [value, classes] : counts) {
    double row = 0;
    for (const auto& [name, count] : classes) row += static_cast<double>(count);
    for (const auto& [name, column] : columns) {
      const double expected = row * column / total;
      const auto found = classes.find(name);
      const double off = (found == classes.end() ? 0.0 : static_cast<double>(found->second)) - expected;
      chi += off * off / expected;
    }
  }
  return std::sqrt(chi / total / static_cast<double>(std::min(counts.size(), columns.size()) - 1));
}

void sort_by_strength(std::vector<Association>& list) {
  std::ranges::stable_sort(list, std::greater<>(), [](const Association& each) { return std::abs(each.strength); });
}

}  // namespace

void Associations::Pair::add(double a, double b) {
  count += 1;
  const double off_a = a - mean_a, off_b = b - mean_b;
  mean_a += off_a / count, mean_b += off_b / count;
  squares_a += off_a * (a - mean_a), squares_b += off_b * (b - mean_b);
  products += off_a * (b - mean_b);
}

double Associations::Pair::correlation() const {
  const double scale = std::sqrt(squares_a) * std::sqrt(squares_b);
  return scale > 0 ? std::clamp(products / scale, -1.0, 1.0) : 0;
}

void Associations::add(const Observation& item) {
  add_correlations(*item.fields);
  if (!target_.empty()) add_against_target(item);
}

void Associations::add_correlations(const std::vector<ObservedField>& fields) {
  std::array<const ObservedField*, kNumbers> present{};
  for (const ObservedField& field : fields) {
    if (!holds_number(field)) continue;
    auto at = static_cast<std::size_t>(std::ranges::find(number_columns_, field.column) - number_columns_.begin());
    if (at == number_columns_.size()) {
      if (at == kNumbers) continue;
      number_columns_.push_back(field.column);
    }
    present[at] = &field;
  }
  dense_.resize(kNumbers * kNumbers, nullptr);
  for (std::size_t i = 0; i < number_columns_.size(); ++i) {
    for (std::size_t j = i + 1; present[i] && j < number_columns_.size(); ++j) {
      if (!present[j]) continue;
      Pair*& pair = dense_[i * kNumbers + j];
      if (!pair) pair = &pairs_[{number_columns_[i], number_columns_[j]}];
      pair->add(present[i]->number, present[j]->number);
    }
  }
}

void Associations::add_against_target(const Observation& item) {
  if (target_column_ >= item.columns->size())
    target_column_ = static_cast<std::size_t>(std::ranges::find(*item.columns, target_) - item.columns->begin());
  const auto target = std::ranges::find(*item.fields, target_column_, &ObservedField::column);
  if (target == item.fields->end()) return;
  const std::string name = group_name(*target);
  const bool known_class = entry_of(classes_, name, kValues) != nullptr;
  for (const ObservedField& field : *item.fields) {
    if (field.column == target->column || (against_.size() == kColumns && !against_.contains(field.column))) continue;
    AgainstTarget& against = against_[field.column];
    const std::string value = group_name(field);
    if (known_class) {
      if (auto* const counts = entry_of(against.counts, value, kValues)) ++(*counts)[name];
      if (auto* const moments = holds_number(field) ? entry_of(against.number_by_class, name, kValues) : nullptr)
        moments->add(field.number);
    }
    if (!holds_number(*target)) continue;
    if (auto* const moments = entry_of(against.target_by_value, value, kValues)) moments->add(target->number);
    if (holds_number(field)) against.pair.add(field.number, target->number);
  }
}

void Associations::finish(SplitStatistics& split) const {
  for (const auto& [columns, pair] : pairs_) {
    const ColumnStatistics &a = split.columns[columns.first], &b = split.columns[columns.second];
    if (a.is_number() && b.is_number() && pair.count > 2)
      split.correlations.push_back({a.name, b.name, pair.correlation(), "correlation"});
  }
  sort_by_strength(split.correlations);
  const ColumnStatistics* const target = split.column(target_);
  if (!target) return;
  split.target = target_;
  const bool few = target->distinct_exact && target->distinct <= 20;
  const bool number = target->is_number() && !few;
  for (const auto& [index, against] : against_) {
    const ColumnStatistics& column = split.columns[index];
    const bool groups = !column.is_number() && column.distinct <= kValues;
    Association found{column.name, target_, 0, ""};
    if (number && column.is_number()) {
      found.strength = against.pair.correlation(), found.measure = "correlation";
    } else if (number && groups) {
      found.strength = correlation_ratio(against.target_by_value), found.measure = "correlation ratio";
      for (const auto& [value, moments] : against.target_by_value)
        split.groups.push_back({column.name, value, moments.count, moments.mean, {}});
    } else if (!number && column.is_number() && target->distinct <= kValues) {
      found.strength = correlation_ratio(against.number_by_class), found.measure = "correlation ratio";
      for (const auto& [name, moments] : against.number_by_class)
        split.groups.push_back({column.name, name, moments.count, moments.mean, {}});
    } else if (!number && groups && target->distinct <= kValues) {
      found.strength = cramers_v(against.counts), found.measure = "Cramer's V";
      for (const auto& [value, classes] : against.counts) {
        TargetGroup group{column.name, value, 0, 0, {}};
        for (const auto& [name, count] : classes) group.count += count, group.classes.push_back({name, count});
        split.groups.push_back(std::move(group));
      }
    } else {
      continue;
    }
    split.with_target.push_back(std::move(found));
  }
  sort_by_strength(split.with_target);
}

}  // namespace mlx::data
