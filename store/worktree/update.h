// A version with one part of it as it stands on disk now, or gone: what `add` and `rm` of a file inside a dataset make.
#pragma once

#include <string>
#include <vector>

#include "store/worktree/worktree.h"

namespace mlx::store {

// `base`'s entries with all at or below one of `parts` as `standing` (of the whole folder) has it. What would be both a
// file and a folder is taken from `standing`. Sorted.
std::vector<Entry> with_parts(const std::vector<Entry>& base, const std::vector<Entry>& standing,
                              const std::vector<std::string>& parts);

// Stores what is missing of those parts of `folder`, and the manifest. Durable when it returns. kNotFound where neither
// `base` nor the folder (without what .mlxignore leaves out) has anything at a part.
ManifestSummary add_parts(Store& store, const std::vector<Entry>& base, const std::string& folder,
                          const std::vector<std::string>& parts, Pool& pool, Progress& progress);

// Stores the manifest of `base` without those parts.
ManifestSummary drop_parts(Store& store, const std::vector<Entry>& base, const std::vector<std::string>& parts);

}  // namespace mlx::store
