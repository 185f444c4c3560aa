// Whole files by content in .mlx/cache/files, which checkouts link to instead of writing their own copies, and which
// weights are read from (mlx-format-cache(5)). All of it can be made again from the store: it may be deleted at any
// time.
//
// Cached files are read-only. If one was changed in place through a hard link, its mode, size or time shows that, and
// it is made again. After a reboot every file is read again before it is used, so nothing needs to be synced.
#pragma once

#include <array>
#include <mutex>
#include <string>
#include <vector>

#include "store/pack/store.h"

namespace mlx::store {

enum class LinkMode { kCopy, kHardlink, kReflink };
LinkMode parse_link_mode(const std::string& text);  // "copy", "hardlink", "reflink"; kUsage otherwise

class FileCache {
 public:
  explicit FileCache(const Store& store);
  bool has(const Entry& entry) const;  // so that obtain() needs no room on the disk
  // Thread-safe. The path of a read-only file with this content; made from the store if absent.
  // `entry` is a regular file. It may be evicted by another process at any time.
  std::string obtain(const Entry& entry, Progress& progress);

 private:
  bool is_good(const std::string& path, const Entry& entry) const;
  bool adopt(const std::string& from, const std::string& to, const Entry& entry);
  void make(const std::string& path, const Entry& entry, Progress& progress);

  const Store& store_;
  Disk& disk_;
  std::string folder_;  // of this boot
  bool boot_known_ = false;
  std::vector<std::string> earlier_;   // of earlier boots
  std::array<std::mutex, 64> making_;  // by content: two threads never make the same file
};

struct CacheUse {
  std::uint64_t files = 0, bytes = 0;
};
// Removes cached files and what killed processes left. Files that a checkout shares by hard link free nothing: they are
// removed only if `shared`. A dry run only counts. `folder` is .mlx.
CacheUse evict_files(const std::string& folder, Disk& disk, bool shared, bool dry_run,
                     const Interruption& interruption = Interruption::never());

}  // namespace mlx::store
