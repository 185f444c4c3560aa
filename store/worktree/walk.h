// The files below a folder with what stat says of them, and what the stat cache remembers. The inside of scan,
// add_folder and checkout; no content is read here.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/parallel.h"
#include "store/pack/manifest.h"
#include "store/sqlite.h"
#include "store/worktree/worktree.h"

namespace mlx::store {

// How the names of files begin that a checkout makes before it renames them into place: they are no data of a user.
inline constexpr std::string_view kCheckoutTemporary = ".mlx-tmp-";

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
  std::string_view path;  // relative to the folder; its bytes are the Walk's
  std::uint32_t mode = kModeFile;
  StatKey key;
};

// Moved, never copied: files point into paths.
struct Walk {
  Walk() = default;
  Walk(Walk&&) = default;
  Walk& operator=(Walk&&) = default;
  bool single = false;            // the folder is a file itself: files has it alone, as its base name
  std::vector<WalkedFile> files;  // sorted by path
  std::vector<std::vector<char>> paths;
  std::string disk_path(const std::string& folder, std::string_view path) const;
};
// kNotFound where there is no folder; kUsage for sockets, devices and fifos.
Walk walk(const std::string& folder, Pool& pool);

struct CachedFile {
  std::string_view path;
  std::uint32_t mode = kModeFile;
  StatKey key;
  Digest content;
};

// What is known of a folder: its files sorted by path, in the bytes that they were stored as. Moved, never copied.
class CachedFiles {
 public:
  CachedFiles() = default;
  CachedFiles(CachedFiles&&) = default;
  CachedFiles& operator=(CachedFiles&&) = default;
  explicit CachedFiles(Bytes bytes);  // kCorrupt where they are not whole
  std::size_t size() const { return count_; }
  // The version that had just these files, all of them; zero where none is known.
  const Digest& manifest() const { return manifest_; }
  CachedFile file(std::size_t number) const;  // its path's bytes are this object's

 private:
  Bytes bytes_;
  std::size_t count_ = 0;
  Digest manifest_;
  ByteView paths_;
};

struct StatCache::State {
  std::optional<Database> database;  // none where it cannot be used
  std::string root;                  // folders inside are known by their paths below it, so that it may be moved
  std::string name_of(const std::string& folder) const;

  CachedFiles load(const std::string& folder);  // empty where nothing (or nonsense) is known
  // Replaces what is known of the folder. Files changed less than a clock tick before `seen_at` (nanoseconds since
  // 1970, when their keys were read) are left out: they may change again without their key changing. `manifest` is the
  // version that has just these files, or zero.
  void save(const std::string& folder, std::vector<CachedFile> files, std::int64_t seen_at,
            const Digest& manifest = {});
};
bool is_racy(const StatKey& key, std::int64_t seen_at);
std::int64_t wall_nanos();

// Pairs walked files with what the cache knows of them.
struct Matches {
  static constexpr std::uint32_t kUnknown = UINT32_MAX;
  std::vector<std::uint32_t> cached;  // for each walked file the cached one with the same key, or kUnknown
  bool all = false;                   // each has one, of the same mode, and the cache has no others
};
Matches match(const Walk& walk, const CachedFiles& cached);

struct StatCacheAccess {
  static StatCache::State* state(StatCache* cache) { return cache ? cache->state_.get() : nullptr; }
};

}  // namespace mlx::store
