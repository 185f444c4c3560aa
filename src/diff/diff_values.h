// Differences between two JSON documents (parameters, environments), value by value. Used by diff_models and
// cmd/diff_runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json_fwd.h"

namespace mlx::diff {

struct ValueChange {
  std::string path;                          // "train.optimizer.lr", "layers[2].conv"
  std::optional<std::string> before, after;  // canonical JSON, strings without quotes; nullopt if there is none
};

// In the order of `before`; a value that is only in `after` follows its predecessor there. Lists are compared index by
// index, lists of more than 32 values as a whole.
std::vector<ValueChange> diff_values(const Json& before, const Json& after);

}  // namespace mlx::diff
