// Writing a version to a folder in two steps: a plan, which finds the differences and refuses to lose data before
// anything is changed, and carrying it out. Used by checkout and pull.
//
// Every file is verified while it is written under a temporary name, and then renamed into place. Files are not synced:
// the store survives a power loss, and the next checkout repairs the folder.
#pragma once

#include <string>
#include <vector>

#include "store/worktree/file_cache.h"
#include "store/worktree/scan.h"

namespace mlx::store {

struct CheckoutOptions {
  bool force = false;   // overwrite and remove what is not in the store
  bool single = false;  // `folder` is itself the one file of `wanted`, or the one to remove
  std::string root;     // a folder around `folder`: no link below it is followed. "": the user chose the place
  std::string inside;   // only this file or folder inside; the rest stays as it is. "": everything
};

struct CheckoutPlan {
  std::string folder, root;
  bool single = false;
  std::vector<Entry> remove, write, set_mode;
  std::vector<std::string> obstacles;  // paths in the way that no scan lists: removed
  std::vector<Entry> result;           // the folder's files afterwards
  bool empty() const { return remove.empty() && write.empty() && set_mode.empty() && obstacles.empty(); }
  std::uint64_t bytes() const;  // to write
};

// Plans the steps after which `folder` holds exactly `wanted` (sorted); ignored files stay. kConflict if files that are
// not in the store would be overwritten or removed, unless `force`; kNotFound if content to write is not here.
CheckoutPlan plan_checkout(const Store& store, std::vector<Entry> wanted, const std::string& folder,
                           const CheckoutOptions& options, StatCache* cache, Pool& pool, Progress& progress);

// Files that could not be linked as asked are copied, and `progress` is warned once.
struct CheckoutReport {
  std::uint64_t linked = 0, copied = 0;  // files
};
CheckoutReport carry_out(const Store& store, const CheckoutPlan& plan, LinkMode link, StatCache* cache, Pool& pool,
                         Progress& progress);

// Makes `folder` hold exactly `manifest`'s files; ignored ones stay. Files that are not in `store` and would be
// overwritten or removed are kConflict unless `force`, before anything is changed. Every file is verified and renamed
// into place. If there is no such folder, and the manifest has one file of the folder's name, that file is written in
// its place (as scan and add_folder read it).
void checkout(const Store& store, const Digest& manifest, const std::string& folder, bool force, StatCache* cache,
              Pool& pool, Progress& progress);

// The entries at `path` or below it; all if `path` is "".
std::vector<Entry> entries_inside(const std::vector<Entry>& entries, const std::string& path);
bool is_inside(std::string_view entry_path, std::string_view path);

}  // namespace mlx::store
