// Whole files by content in .mlx/cache/files, which checkouts link to instead of writing their own copies
// (mlx-format-cache(5)). Everything in it can be made again from the store: it may be deleted at any time.
//
// Files in it are read-only. One that was changed in place through a hard link is told by its mode, size or time when
// it is next asked for, and made anew; after a reboot every file is read again before it is trusted, so that nothing
// needs to be synced.
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
  FileCache(const Store& store, Disk& disk);
  // Thread-safe. The path of a read-only file that holds this content; made from the store where there is none.
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
  std::vector<std::string> earlier_;   // of boots before
  std::array<std::mutex, 64> making_;  // by content: the same file is made once
};

struct CacheUse {
  std::uint64_t files = 0, bytes = 0;
};
// Removes cached files, and what killed processes left; those that a checkout shares by hard link only where `shared`
// (they free nothing). A dry run counts only. `folder` is .mlx.
CacheUse evict_files(const std::string& folder, Disk& disk, bool shared, bool dry_run);

}  // namespace mlx::store
