// The rules that a dataset must keep: [check] and [labels] of its dataset.toml (mlx-format-dataset(5)).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/quality/pattern.h"
#include "data/quality/statistics.h"
#include "store/pack/store.h"

namespace mlx::data {

struct ColumnRules {
  std::string name;
  std::string type;                 // "" for any
  std::optional<double> low, high;  // of numbers
  std::vector<std::string> allowed;
  std::optional<Pattern> pattern;
  std::string pattern_text;
  bool unique = false;
  std::optional<double> missing;                  // the largest share
  std::optional<std::int64_t> shortest, longest;  // bytes of text
};

struct Comparison {
  std::string text, left, op, right;  // "start <= end"
};

struct Rules {
  bool declared = false;  // dataset.toml has [check]
  std::string target;
  std::optional<std::pair<std::int64_t, std::int64_t>> rows;                             // of each split
  std::optional<double> leaks, near_leaks, duplicates, near_duplicates, drift, balance;  // balance: of the rarest class
  bool refuse_personal = false;
  std::string fresh_column;
  std::int64_t fresh_days = 0;
  std::vector<Comparison> compare;
  std::vector<ColumnRules> columns;
  bool only_these = false;            // no other columns
  std::vector<std::string> personal;  // columns that [labels] declares as personal
};

// Of a dataset.toml's text. Throws kUsage with file and line.
Rules parse_rules(std::string_view text);
// Of a version; no rules if it has no dataset.toml.
Rules rules_of(const store::Store& store, const Digest& manifest);

// Rules that every split keeps, as the text of a [check] table: what `mlx check --infer` prints. The columns are those
// of the training split, or of the only one. Of columns that may hold personal data no value is written; `labels`: they
// are listed in [labels].
std::string inferred_rules(const Statistics& statistics, bool labels);

}  // namespace mlx::data
