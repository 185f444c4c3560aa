// The rules over single items: types, ranges, allowed values, patterns, lengths, uniqueness, comparisons of columns.
// Sees a split's observations and keeps the first that break a rule. Used by check.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "data/quality/check.h"
#include "data/quality/rules.h"
#include "data/quality/scan.h"
#include "data/quality/sketches.h"

namespace mlx::data {

class ItemRules {
 public:
  static constexpr std::size_t kMostUnique = std::size_t{1} << 24;  // different values of a unique column
  ItemRules(const Rules& rules, const Interruption& interruption);
  void see(const Observation& item);
  // Adds what does not hold in the split; resolves places to lines.
  void finish(const StoredSplit& split, const std::string& name, std::vector<Failure>& to);

 private:
  struct Broken {
    std::uint64_t count = 0;
    std::vector<std::pair<std::uint64_t, std::string>> first;  // places and values
    std::string text;                                          // "not from 0 to 120"
  };
  void check_column(const ColumnRules& column, const ObservedField& field, std::uint64_t place);
  void check_comparison(const Comparison& compare, const Observation& item);
  void check_target(const Observation& item);
  void note(const std::string& rule, const std::string& text, std::uint64_t place, std::string_view value);

  const Rules& rules_;
  const Interruption& interruption_;
  std::unordered_map<std::string, std::vector<std::size_t>> by_name_;  // indices of rules_.columns
  std::vector<std::vector<std::size_t>> of_column_;  // by the table's column: indices of rules_.columns
  std::vector<HashSample> uniques_;
  std::map<std::string, Broken> broken_;
  std::uint64_t items_ = 0;
  std::optional<std::uint32_t> target_;  // the column [check] target
  std::uint64_t with_target_ = 0;        // items that have a value of [check] target
};

}  // namespace mlx::data
