// Folders on disk against manifests: scanning with the stat cache, what differs, and writing a version out.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "base/progress.h"
#include "store/pack/store.h"

namespace mlx::store {

// (dev, ino, size, mtime_ns, ctime_ns) → digest, in .mlx/cache.db, which may be deleted at any time. Git's racy rule: a
// file changed in the same clock tick as it was recorded is hashed again.
class StatCache {
 public:
  struct State;
  explicit StatCache(const std::string& path);  // a broken or unwritable cache counts as empty
  ~StatCache();

 private:
  friend struct StatCacheAccess;  // walk.h: for the rest of this layer
  std::unique_ptr<State> state_;
};

// Every file and link below `folder` (or `folder` itself where it is a file, as its base name), sorted, with digests;
// unchanged files come from the cache. Sockets, devices and fifos are kUsage; `.mlxignore` (gitignore syntax) is
// honoured; .git and .mlx are skipped. A missing folder is kNotFound.
std::vector<Entry> scan(const std::string& folder, StatCache* cache, Pool& pool, Progress& progress);

// Scans, stores what is missing, and returns the manifest; every file is read once. Durable when it returns. `before`
// (or nullptr) is the manifest that this one comes after: tensors may be stored as what differs from its. kUsage for a
// folder without files, and for one that holds a single file of its own name.
ManifestSummary add_folder(Store& store, const std::string& folder, const Digest* before, StatCache* cache, Pool& pool,
                           Progress& progress);

struct Difference {
  std::vector<Entry> added, removed;
  std::vector<std::pair<Entry, Entry>> changed;  // before, after
  bool empty() const { return added.empty() && removed.empty() && changed.empty(); }
};
Difference compare(const std::vector<Entry>& before, const std::vector<Entry>& after);

// What differs between `manifest` and `folder` as it stands; nullopt where neither the stat cache nor `store` has the
// manifest's files. Where the stat cache has them this costs a stat a file, and the content of those that are others.
std::optional<Difference> changes_since(const Digest& manifest, const Store& store, const std::string& folder,
                                        StatCache* cache, Pool& pool, Progress& progress);

// Makes `folder` hold exactly `manifest`'s files; ignored ones stay. Files that are not in `store` and would be
// overwritten or removed are kConflict unless `force`, before anything is changed. Every file is verified and renamed
// into place. A manifest of one file that is called as `folder` is, where no folder stands, is that file itself (as
// scan and add_folder take it).
void checkout(const Store& store, const Digest& manifest, const std::string& folder, bool force, StatCache* cache,
              Pool& pool, Progress& progress);

}  // namespace mlx::store
