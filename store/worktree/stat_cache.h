// Remembers the digests of files on disk, so that unchanged files are not hashed again.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "store/sqlite.h"
#include "store/worktree/walk.h"

namespace mlx::store {

struct CachedFile {
  std::string_view path;
  std::uint32_t mode = kModeFile;
  StatKey key;
  Digest content;
};

// A folder's remembered files, sorted by path, in their stored bytes. Moved, never copied.
class CachedFiles {
 public:
  CachedFiles() = default;
  CachedFiles(CachedFiles&&) = default;
  CachedFiles& operator=(CachedFiles&&) = default;
  explicit CachedFiles(Bytes bytes);  // kCorrupt if they are damaged
  std::size_t size() const { return count_; }
  // The version with exactly these files; zero if none is known.
  const Digest& manifest() const { return manifest_; }
  CachedFile file(std::size_t number) const;  // its path points into this object

 private:
  Bytes bytes_;
  std::size_t count_ = 0;
  Digest manifest_;
  ByteView paths_;
};

// (dev, ino, size, mtime_ns, ctime_ns) → digest, in .mlx/cache.db, which may be deleted at any time. Git's racy rule: a
// file that changed in the same clock tick as it was recorded is hashed again.
class StatCache {
 public:
  explicit StatCache(const std::string& path);  // a broken or unwritable cache counts as empty

  CachedFiles load(const std::string& folder);  // empty if nothing is known, or if it is damaged
  // Replaces what is known of the folder. Files that changed less than a clock tick before `seen_at` (nanoseconds since
  // 1970, when their keys were read) are left out: they may change again and keep their key. `manifest` is the version
  // that has just these files, or zero.
  void save(const std::string& folder, std::vector<CachedFile> files, std::int64_t seen_at,
            const Digest& manifest = {});

 private:
  std::string name_of(const std::string& folder) const;
  std::optional<Database> database_;  // none if it cannot be used
  std::string root_;                  // folders inside are known by their paths below it, so that it may be moved
};

bool is_racy(const StatKey& key, std::int64_t seen_at);
std::int64_t wall_nanos();

// Pairs walked files with cached ones.
struct Matches {
  static constexpr std::uint32_t kUnknown = UINT32_MAX;
  std::vector<std::uint32_t> cached;  // for each walked file, the cached one with the same path and key, or kUnknown
  bool all = false;                   // every walked file has one of the same mode, and the cache has no others
};
Matches match(const Walk& walk, const CachedFiles& cached);

}  // namespace mlx::store
