// The files below a folder with what stat says of them, and what the stat cache remembers. The inside of scan,
// add_folder and checkout; no content is read here.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "store/manifest.h"
#include "store/sqlite.h"
#include "store/worktree.h"

namespace mlx::store {

// What tells a file that was looked at before from one that has changed. Times are nanoseconds since 1970.
struct StatKey {
  std::uint64_t device = 0, inode = 0, size = 0;
  std::int64_t modified = 0, changed = 0;
  bool operator==(const StatKey&) const = default;
};
StatKey stat_key(const struct stat& status);
// lstat; nullopt where there is nothing.
std::optional<struct stat> stat_link(const std::string& path);
std::uint32_t mode_of(const struct stat& status);  // kModeFile, kModeExecutable or kModeLink

struct WalkedFile {
  std::string path;  // relative to the folder
  std::uint32_t mode = kModeFile;
  StatKey key;
};

struct Walk {
  bool single = false;            // the folder is a file itself: files has it alone, as its base name
  std::vector<WalkedFile> files;  // sorted by path
  std::string disk_path(const std::string& folder, const std::string& path) const;
};
// kNotFound where there is no folder; kUsage for sockets, devices and fifos.
Walk walk(const std::string& folder, Pool& pool);

struct CachedFile {
  std::string path;
  StatKey key;
  Digest content;
};

struct StatCache::State {
  std::optional<Database> database;  // none where it cannot be used

  std::vector<CachedFile> load(
      const std::string& folder);  // sorted by path; empty where nothing (or nonsense) is known
  // Replaces what is known of the folder. Files changed less than a clock tick before `seen_at` (nanoseconds since
  // 1970, when their keys were read) are left out: they may change again without their key changing.
  void save(const std::string& folder, const std::vector<CachedFile>& files, std::int64_t seen_at);
};
bool is_racy(const StatKey& key, std::int64_t seen_at);
std::int64_t wall_nanos();

// Pairs walked files with what the cache knows: digests where the key is the same, nullopt elsewhere.
std::vector<std::optional<Digest>> known_digests(const Walk& walk, const std::vector<CachedFile>& cached);

struct StatCacheAccess {
  static StatCache::State* state(StatCache* cache) { return cache ? cache->state_.get() : nullptr; }
};

}  // namespace mlx::store
