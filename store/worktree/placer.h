// Puts the files of one checkout in place: linked to the file cache while that works, else written. Used by carry_out.
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "base/path.h"
#include "store/worktree/beneath.h"
#include "store/worktree/checkout.h"

namespace mlx::store {

struct Target {
  std::string folder;
  bool single = false;  // the folder is the one file itself
  std::string path(const Entry& entry) const { return single ? folder : join_path(folder, entry.path); }
};

// The target below `root`, which no write leaves.
struct Place {
  Beneath root;
  Target target;  // its folder is relative to `root`, "" for that itself
};

[[noreturn]] void fail_folder_in_the_way(const std::string& path);

// Removes temporary files that killed processes left in the folder.
void remove_stale_checkouts(const Place& place, Disk& disk);

class Placer {
 public:
  Placer(const Store& store, Disk& disk, const Place& place, LinkMode link, Progress& progress);
  // Thread-safe; `number` is the caller's own for each file.
  void place(const Entry& entry, int number);
  // Warns if files could not be linked and were copied.
  CheckoutReport report() const;

 private:
  bool linked(const Entry& entry, const std::string& temporary);
  int link_once(const Entry& entry, const std::string& temporary);

  const Store& store_;
  Disk& disk_;
  const Place& place_;
  LinkMode link_;
  Progress& progress_;
  std::optional<FileCache> cache_;
  std::atomic<int> refused_{0};  // errno of the first link that the file system refused; then all are copied
  std::atomic<std::uint64_t> linked_{0}, copied_{0};
};

}  // namespace mlx::store
