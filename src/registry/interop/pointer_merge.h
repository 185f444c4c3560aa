// The merge of two states of one pointer: of what the versions hold, not of the text. What `mlx merge-file` does, which
// git runs as the merge driver of *.mlx. Contents are neither read nor copied; only a manifest is made.
#pragma once

#include <optional>
#include <vector>

#include "registry/versions/pointers.h"
#include "store/pack/merge.h"

namespace mlx::registry {

struct PointerMerge {
  Pointer pointer;                              // the result, where there are no conflicts
  std::vector<store::MergeConflict> conflicts;  // path "": the dataset or model as a whole
  std::size_t from_ours = 0, from_theirs = 0;   // files that only this side changed
};

// Without `base` both sides added it. Of a version that must be looked into and is not in this store the list of files
// is fetched; kNotFound where that fails. The merged version is stored, durably, unless `dry_run`. Models are not
// merged: both sides changed is a conflict.
PointerMerge merge_pointers(Repository& repository, const std::optional<Pointer>& base, const Pointer& ours,
                            const Pointer& theirs, store::Favour favour, bool dry_run);

}  // namespace mlx::registry
