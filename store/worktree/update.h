// A version in which some paths are replaced by their state on disk, or removed: for `add` and `rm` of a file inside a
// dataset.
#pragma once

#include <string>
#include <vector>

#include "store/worktree/scan.h"

namespace mlx::store {

// `base`'s entries, but those at or below one of `parts` are taken from `standing` (of the whole folder). If a path
// would be both a file and a folder, `standing` wins. Sorted.
std::vector<Entry> with_parts(const std::vector<Entry>& base, const std::vector<Entry>& standing,
                              const std::vector<std::string>& parts);

// Stores those parts of `folder` and the manifest. Durable when it returns. kNotFound if neither `base` nor the folder
// (without ignored files) has anything at a part.
ManifestSummary add_parts(Store& store, const std::vector<Entry>& base, const std::string& folder,
                          const std::vector<std::string>& parts, Pool& pool, Progress& progress);

// Stores the manifest of `base` without those parts.
ManifestSummary drop_parts(Store& store, const std::vector<Entry>& base, const std::vector<std::string>& parts);

}  // namespace mlx::store
