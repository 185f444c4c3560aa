// Folders on disk against manifests: scanning with the stat cache, adding, and what differs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "base/progress.h"
#include "store/pack/store.h"
#include "store/worktree/stat_cache.h"

namespace mlx::store {

// Every file and link below `folder` (or `folder` itself, by its base name, if it is a file), sorted, with digests;
// unchanged files come from the cache. Sockets, devices and fifos are kUsage; `.mlxignore` (gitignore syntax) is
// honoured; .git and .mlx are skipped. A missing folder is kNotFound.
std::vector<Entry> scan(const std::string& folder, StatCache* cache, Pool& pool, Progress& progress);

// Scans, stores what is missing, and returns the manifest; every file is read once. Durable when it returns. `before`
// (or nullptr) is the manifest before this one: tensors may be stored as deltas against its tensors. kUsage for a
// folder without files, and for one that holds only a file of its own name.
ManifestSummary add_folder(Store& store, const std::string& folder, const Digest* before, StatCache* cache, Pool& pool,
                           Progress& progress);

struct Difference {
  std::vector<Entry> added, removed;
  std::vector<std::pair<Entry, Entry>> changed;  // before, after
  bool empty() const { return added.empty() && removed.empty() && changed.empty(); }
};
Difference compare(const std::vector<Entry>& before, const std::vector<Entry>& after);

// The differences between `manifest` and `folder` now; nullopt if neither the stat cache nor `store` has the manifest's
// files. If the stat cache has them, this costs a stat for each file and reads those that changed.
std::optional<Difference> changes_since(const Digest& manifest, const Store& store, const std::string& folder,
                                        StatCache* cache, Pool& pool, Progress& progress);

}  // namespace mlx::store
