// Three-way merge of a pointer: merges the versions' file lists, not the text. `mlx merge-file` uses it, which git runs
// as the merge driver of *.mlx. Contents are neither read nor copied; only a manifest is made.
#pragma once

#include <optional>
#include <vector>

#include "registry/versions/pointers.h"
#include "store/format/merge.h"

namespace mlx::registry {

struct PointerMerge {
  Pointer pointer;                              // the result, if there are no conflicts
  std::vector<store::MergeConflict> conflicts;  // path "": the dataset or model as a whole
  std::size_t from_ours = 0, from_theirs = 0;   // files that only one side changed
};

// Without `base` both sides added the pointer. If a file list is needed and not in this store, it is fetched; kNotFound
// if that fails. The merged version is stored durably unless `dry_run`. Models are not merged: it is a conflict if both
// sides changed one.
PointerMerge merge_pointers(Repository& repository, const std::optional<Pointer>& base, const Pointer& ours,
                            const Pointer& theirs, store::Favour favour, bool dry_run);

}  // namespace mlx::registry
