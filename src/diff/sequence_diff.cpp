// A table of the lengths of common subsequences of all tails, walked from the front.
#include "diff/sequence_diff.h"

#include <algorithm>
#include <cstdint>

namespace mlx::diff {

std::vector<Step> sequence_diff(const std::vector<std::string>& before, const std::vector<std::string>& after) {
  using Kind = Step::Kind;
  constexpr std::size_t kMost = 4096;
  const std::size_t shorter = std::min(before.size(), after.size());
  std::size_t head = 0, tail = 0;
  while (head < shorter && before[head] == after[head]) ++head;
  while (tail < shorter - head && before[before.size() - 1 - tail] == after[after.size() - 1 - tail]) ++tail;
  const std::size_t rows = before.size() - head - tail, columns = after.size() - head - tail;

  std::vector<Step> steps;
  for (std::size_t i = 0; i < head; ++i) steps.push_back({Kind::kKept, i, i});
  const bool small = rows <= kMost && columns <= kMost;
  std::vector<std::uint16_t> lengths(small ? (rows + 1) * (columns + 1) : 0);
  const auto at = [&](std::size_t i, std::size_t j) -> std::uint16_t& { return lengths[i * (columns + 1) + j]; };
  for (std::size_t i = small ? rows : 0; i-- > 0;) {
    for (std::size_t j = columns; j-- > 0;) {
      at(i, j) = before[head + i] == after[head + j] ? static_cast<std::uint16_t>(at(i + 1, j + 1) + 1)
                                                     : std::max(at(i + 1, j), at(i, j + 1));
    }
  }
  std::size_t i = 0, j = 0;
  while (i < rows || j < columns) {
    if (small && i < rows && j < columns && before[head + i] == after[head + j]) {
      steps.push_back({Kind::kKept, head + i++, head + j++});
    } else if (j == columns || (i < rows && (!small || at(i + 1, j) >= at(i, j + 1)))) {
      steps.push_back({Kind::kRemoved, head + i, head + j});
      ++i;
    } else {
      steps.push_back({Kind::kAdded, head + i, head + j});
      ++j;
    }
  }
  for (std::size_t k = 0; k < tail; ++k) steps.push_back({Kind::kKept, head + rows + k, head + columns + k});
  return steps;
}

}  // namespace mlx::diff
