// Pairs removed with added files by content, in time linear in their number.
#include "store/worktree/moves.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "base/path.h"

namespace mlx::store {
namespace {

std::string key_of(const Entry& entry, bool with_name) {
  std::string key(entry.content.bytes.begin(), entry.content.bytes.end());
  key += entry.mode == kModeLink ? 'l' : entry.mode == kModeExecutable ? 'x' : 'f';
  return with_name ? key + base_name(entry.path) : key;
}

// Pairs the unpaired files with the same key, in the order of paths.
void pair_up(const Difference& difference, bool with_name, std::vector<bool>& gone, std::vector<bool>& come,
             Moves& moves) {
  struct Waiting {
    std::vector<std::size_t> removed;
    std::size_t next = 0;
  };
  std::unordered_map<std::string, Waiting> waiting;
  for (std::size_t i = 0; i < difference.removed.size(); ++i) {
    const Entry& entry = difference.removed[i];
    if (!gone[i] && entry.size > 0) waiting[key_of(entry, with_name)].removed.push_back(i);
  }
  for (std::size_t i = 0; i < difference.added.size() && !waiting.empty(); ++i) {
    if (come[i] || difference.added[i].size == 0) continue;
    const auto found = waiting.find(key_of(difference.added[i], with_name));
    if (found == waiting.end() || found->second.next == found->second.removed.size()) continue;
    const std::size_t from = found->second.removed[found->second.next++];
    gone[from] = come[i] = true;
    moves.emplace_back(difference.removed[from], difference.added[i]);
  }
}

void drop(std::vector<Entry>& entries, const std::vector<bool>& taken) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (taken[i]) continue;
    if (kept != i) entries[kept] = std::move(entries[i]);
    ++kept;
  }
  entries.resize(kept);
}

}  // namespace

Moves take_moves(Difference& difference) {
  Moves moves;
  if (difference.added.empty() || difference.removed.empty()) return moves;
  std::vector<bool> gone(difference.removed.size()), come(difference.added.size());
  pair_up(difference, true, gone, come, moves);
  pair_up(difference, false, gone, come, moves);
  drop(difference.removed, gone);
  drop(difference.added, come);
  std::ranges::sort(moves, {}, [](const auto& move) { return move.second.path; });
  return moves;
}

}  // namespace mlx::store
