// How one split is divided into the splits "train", "valid" and "test": [split] of dataset.toml, or [data] split of a
// training's config (mlx-format-dataset(5)). division.h applies the rule.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "base/toml.h"

namespace mlx::data {

enum class DivideBy : std::uint8_t { kFraction, kColumn, kGroup, kTime, kStratified };
enum class Part : std::uint8_t { kTrain, kValid, kTest };
const char* name_of(Part part);  // the split's name: "train", "valid", "test"

struct SplitRule {
  DivideBy by = DivideBy::kFraction;
  double valid = 0, test = 0;                          // shares of the items; 0: there is no such split
  std::vector<std::string> valid_values, test_values;  // of kColumn instead: the column's values
  std::uint64_t seed = 1;
  std::string column;  // of kColumn, kGroup and kTime; of kStratified that of the classes, "" for images
  bool makes(Part part) const;
  bool operator==(const SplitRule&) const = default;
};

// Throws kUsage with file and line for a rule that divides nothing, or that has keys of another one.
SplitRule read_split_rule(TomlReader table);
Json to_json(const SplitRule& rule);
SplitRule split_rule_from_json(const Json& json, const std::string& what);  // kCorrupt naming `what`

}  // namespace mlx::data
