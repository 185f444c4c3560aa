// The three-way merge of two versions of a folder, path by path. A change of one side is taken; the same change on both
// sides is taken once; different changes of one path are a conflict. Used by the merge driver
// (registry/versions/pointer_merge.h). Contents are never mixed, only chosen; a pure function over entries.
#pragma once

#include <string>
#include <vector>

#include "store/format/manifest.h"

namespace mlx::store {

enum class Favour { kNone, kOurs, kTheirs };  // the side to take if both changed the same path

struct MergeConflict {
  std::string path;
  std::string what;  // "changed on both sides", "changed in ours, deleted in theirs", …
  bool operator==(const MergeConflict&) const = default;
};

struct MergedEntries {
  std::vector<Entry> entries;  // sorted; a valid tree if there are no conflicts
  std::vector<MergeConflict> conflicts;
  std::size_t from_ours = 0, from_theirs = 0;  // paths taken from this side
};

// All three are sorted and have no doubled paths. A file's content and its executable bit are merged separately. With a
// favour no conflict is left. A file and a folder of one name are a conflict.
MergedEntries merge_entries(const std::vector<Entry>& base, const std::vector<Entry>& ours,
                            const std::vector<Entry>& theirs, Favour favour);

}  // namespace mlx::store
