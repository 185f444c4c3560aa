// The three-way merge of two versions of a folder, path by path: what one side changed is taken, what both changed the
// same way is taken once, and what both changed differently is a conflict that is named. Used by the merge driver
// (registry/versions/pointer_merge.h). Contents are never mixed, only chosen; a pure function over entries.
#pragma once

#include <string>
#include <vector>

#include "store/pack/manifest.h"

namespace mlx::store {

enum class Favour { kNone, kOurs, kTheirs };  // whose side is taken where both changed the same path

struct MergeConflict {
  std::string path;
  std::string what;  // "changed on both sides", "changed in ours, deleted in theirs", …
  bool operator==(const MergeConflict&) const = default;
};

struct MergedEntries {
  std::vector<Entry> entries;  // sorted; a tree that can stand where there are no conflicts
  std::vector<MergeConflict> conflicts;
  std::size_t from_ours = 0, from_theirs = 0;  // paths that only this side changed, or that were decided for it
};

// All three sorted and without doubled paths. A file's content and its executable bit are merged each on its own. With
// a favour nothing is left in conflict; a file and a folder of one name count as a conflict of that name.
MergedEntries merge_entries(const std::vector<Entry>& base, const std::vector<Entry>& ours,
                            const std::vector<Entry>& theirs, Favour favour);

}  // namespace mlx::store
