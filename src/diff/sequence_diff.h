// The fewest removals and additions that turn one sequence of lines into another. Used for graphs and short texts.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace mlx::diff {

struct Step {
  enum class Kind { kKept, kRemoved, kAdded } kind;
  std::size_t before, after;  // places in the two sequences; for a removal, `after` is the place where the line would
                              // be, and vice versa
  bool operator==(const Step&) const = default;
};

// Longest common subsequence by dynamic programming over what lies between common ends; if that is more than
// 4096 x 4096, everything between is removed and added.
std::vector<Step> sequence_diff(const std::vector<std::string>& before, const std::vector<std::string>& after);

}  // namespace mlx::diff
