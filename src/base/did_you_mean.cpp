// The closest known word to a mistyped one. Used for commands, options, configuration keys and names of things.

#include <algorithm>

#include "base/toml.h"

namespace mlx {
namespace {

// Damerau-Levenshtein in the restricted form (optimal string alignment): insertions, deletions, replacements and swaps
// of neighbours; what was swapped is not edited again.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last, last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = a[i - 1] == b[j - 1];
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = std::exchange(last, row);
  }
  return last[b.size()];
}

// A word of up to three letters with another first letter is another word, not a mistake: gpu is not cpu.
bool differs_in_front(std::string_view word, std::string_view candidate) {
  return !word.empty() && word.size() <= 3 && word.size() == candidate.size() && word[0] != candidate[0] &&
         word.substr(1) == candidate.substr(1);
}

}  // namespace

std::string did_you_mean(std::string_view word, const std::vector<std::string>& words) {
  // A third of the length rounded up, so that short words may have one mistake; never all of the word.
  std::size_t best = std::min((word.size() + 2) / 3 + 1, word.size());
  std::string closest;
  const auto begins_alike = [&](const std::string& other) { return !other.empty() && other[0] == word[0]; };
  for (const std::string& candidate : words) {
    const std::size_t longer = std::max(word.size(), candidate.size());
    const std::size_t shorter = std::min(word.size(), candidate.size());
    if (longer - shorter > best || differs_in_front(word, candidate)) continue;
    const std::size_t away = distance(word, candidate);
    // Of equally near words the one with the same first letter: few mistakes are made there.
    const bool nearer =
        away < best || (away == best && !closest.empty() && begins_alike(candidate) && !begins_alike(closest));
    if (!nearer) continue;
    best = away;
    closest = candidate;
  }
  return closest;
}

}  // namespace mlx
