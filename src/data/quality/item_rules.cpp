// Checks observations one by one.

#include "data/quality/item_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.h"

namespace mlx::data {
namespace {

constexpr std::size_t kFirst = 20;
constexpr std::size_t kLongestShown = 80;
constexpr const char* kTarget = "target";
constexpr const char* kNoTarget = "missing or not finite";

bool is_numeric(const ObservedField& field) {
  return field.type == ValueType::kInt || field.type == ValueType::kFloat;
}

bool looks_like_date(std::string_view text) {
  return text.size() >= 10 && text[4] == '-' && text[7] == '-' &&
         std::ranges::all_of(std::string_view("\0\1\2\3\5\6\x8\x9", 8), [&](char at) {
           return text[static_cast<std::size_t>(at)] >= '0' && text[static_cast<std::size_t>(at)] <= '9';
         });
}

bool has_type(const ObservedField& field, const std::string& type) {
  if (type == "int") return field.type == ValueType::kInt;
  if (type == "float") return is_numeric(field);
  if (type == "bool") return field.type == ValueType::kBool;
  if (type == "date") return looks_like_date(field.text);
  return true;  // every value can be text
}

bool holds(const std::string& op, int order) {
  if (op == "<") return order < 0;
  if (op == "<=") return order <= 0;
  if (op == ">") return order > 0;
  if (op == ">=") return order >= 0;
  return op == "==" ? order == 0 : order != 0;
}

std::string shown(const ObservedField& field) {
  return field.text.empty() ? fmt::format("{}", field.number) : std::string(field.text);
}

}  // namespace

ItemRules::ItemRules(const Rules& rules, const Interruption& interruption)
    : rules_(rules), interruption_(interruption), uniques_(rules.columns.size(), HashSample(kMostUnique)) {
  for (std::size_t rule = 0; rule < rules.columns.size(); ++rule) by_name_[rules.columns[rule].name].push_back(rule);
}

void ItemRules::note(const std::string& rule, const std::string& text, std::uint64_t place, std::string_view value) {
  Broken& broken = broken_[rule];
  broken.text = text;
  if (broken.count++ >= kFirst) return;
  std::string cut = printable(value.substr(0, kLongestShown));
  broken.first.emplace_back(place, value.size() > kLongestShown ? cut + "..." : cut);
}

void ItemRules::see(const Observation& item) {
  ++items_;
  for (std::size_t i = of_column_.size(); i < item.columns->size(); ++i) {
    const auto named = by_name_.find((*item.columns)[i]);
    of_column_.push_back(named == by_name_.end() ? std::vector<std::size_t>() : named->second);
    if ((*item.columns)[i] == rules_.target) target_ = static_cast<std::uint32_t>(i);
  }
  for (const ObservedField& field : *item.fields) {
    for (const std::size_t rule : of_column_[field.column]) {
      check_column(rules_.columns[rule], field, item.place);
      if (rules_.columns[rule].unique) uniques_[rule].add({hash_of(shown(field)), item.place});
    }
  }
  for (const Comparison& compare : rules_.compare) check_comparison(compare, item);
  if (!rules_.target.empty()) check_target(item);
}

// No rule need ask for it: a training stops at such rows.
void ItemRules::check_target(const Observation& item) {
  const auto target = std::ranges::find(*item.fields, target_, &ObservedField::column);
  if (target == item.fields->end()) return note(kTarget, kNoTarget, item.place, "no value");
  ++with_target_;
  if (is_numeric(*target) && std::abs(target->number) > double{std::numeric_limits<float>::max()})
    note(kTarget, kNoTarget, item.place, shown(*target));
}

void ItemRules::check_column(const ColumnRules& column, const ObservedField& field, std::uint64_t place) {
  const auto broken = [&](const char* rule, const std::string& text) {
    note(fmt::format("columns.{}.{}", column.name, rule), text, place, shown(field));
  };
  if (!column.type.empty() && !has_type(field, column.type)) broken("type", "not of type " + column.type);
  if (column.low || column.high) {
    const bool inside = is_numeric(field) && !(column.low && field.number < *column.low) &&
                        !(column.high && field.number > *column.high);
    if (!inside) {
      broken("range", column.low && column.high ? fmt::format("not from {} to {}", *column.low, *column.high)
                      : column.low              ? fmt::format("not at least {}", *column.low)
                                                : fmt::format("not at most {}", *column.high));
    }
  }
  if (!column.allowed.empty() && !std::ranges::binary_search(column.allowed, field.text))
    broken("allowed", "not allowed");
  if (column.pattern && !column.pattern->matches(field.text, &interruption_))
    broken("pattern", "not of the pattern " + column.pattern_text);
  if (column.longest) {
    const auto size = static_cast<std::int64_t>(field.text.size());
    if (size < *column.shortest || size > *column.longest)
      broken("length", fmt::format("not {} to {} bytes long", *column.shortest, *column.longest));
  }
}

// Numbers by value, everything else by bytes, as ISO dates need it. Items that lack one of the two are fine.
void ItemRules::check_comparison(const Comparison& compare, const Observation& item) {
  const ObservedField *left = nullptr, *right = nullptr;
  for (const ObservedField& field : *item.fields) {
    if ((*item.columns)[field.column] == compare.left) left = &field;
    if ((*item.columns)[field.column] == compare.right) right = &field;
  }
  if (!left || !right) return;
  const int order = is_numeric(*left) && is_numeric(*right)
                        ? (left->number > right->number) - (left->number < right->number)
                        : left->text.compare(right->text);
  if (!holds(compare.op, order))
    note("compare: " + compare.text, fmt::format("not {}", compare.text), item.place,
         fmt::format("{} and {}", shown(*left), shown(*right)));
}

void ItemRules::finish(const StoredSplit& split, const std::string& name, std::vector<Failure>& to) {
  for (std::size_t rule = 0; rule < uniques_.size(); ++rule) {
    const std::vector<HashedItem>& values = uniques_[rule].sorted();
    if (rules_.columns[rule].unique && uniques_[rule].limit() != ~std::uint64_t{0}) {
      Broken& broken = broken_[fmt::format("columns.{}.unique", rules_.columns[rule].name)];
      broken.text = fmt::format("not compared: only {} different ones are", grouped(kMostUnique));
      broken.count = items_;
      continue;
    }
    for (const HashedItem& item : values) {
      if (item.count == 1) continue;
      Broken& broken = broken_[fmt::format("columns.{}.unique", rules_.columns[rule].name)];
      broken.text = "the same as one before";
      broken.count += item.count - 1;
      broken.first.emplace_back(item.again, "");
    }
  }
  if (with_target_ == 0 && name != "train") broken_.erase(kTarget);  // nothing is to be learned from it
  std::vector<std::uint64_t> places;
  for (auto& [rule, broken] : broken_) {
    std::ranges::sort(broken.first);
    broken.first.resize(std::min(broken.first.size(), kFirst));
    for (const auto& [place, value] : broken.first) places.push_back(place);
  }
  places = numbers_of(split, std::move(places));
  std::size_t at = 0;
  for (const auto& [rule, broken] : broken_) {
    Failure failure;
    failure.rule = rule, failure.split = name, failure.file = split.files.at(0).path;
    failure.place_word = item_scan(split).place_word;
    failure.count = broken.count;
    failure.text = fmt::format("{} of {} {} {}", grouped(broken.count), counted(items_, "value"),
                               broken.count == 1 ? "is" : "are", broken.text);
    for (const auto& [place, value] : broken.first) failure.found.push_back({places[at++], value});
    to.push_back(std::move(failure));
  }
}

}  // namespace mlx::data
