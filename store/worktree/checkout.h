// Writing a version out in two steps: a plan, which finds what differs and refuses what would be lost before anything
// is touched, and carrying it out. Used by checkout and pull, and by whatever brings a folder to a state.
//
// Every file is verified while it is written, under a temporary name, and renamed into place. What is written is not
// synced: the store is what survives a power loss, and the next checkout puts right what did not.
#pragma once

#include <string>
#include <vector>

#include "store/worktree/file_cache.h"
#include "store/worktree/worktree.h"

namespace mlx::store {

struct CheckoutOptions {
  bool force = false;   // overwrite and remove what is not in the store
  bool single = false;  // `folder` is itself the one file of `wanted` (or of what is to go)
  std::string root;     // what `folder` stands in: no link below it is followed. "": the place is the user's own choice
  std::string inside;   // only this file, or what stands below this folder; the rest stays as it is. "": everything
};

struct CheckoutPlan {
  std::string folder, root;
  bool single = false;
  std::vector<Entry> remove, write, set_mode;
  std::vector<std::string> obstacles;  // paths on disk that no scan lists and that are in the way: removed
  std::vector<Entry> result;           // what stands in the folder afterwards
  bool empty() const { return remove.empty() && write.empty() && set_mode.empty() && obstacles.empty(); }
  std::uint64_t bytes() const;  // of what is written
};

// What must happen for `folder` to hold exactly `wanted` (sorted; what .mlxignore leaves out stays). kConflict where
// files that are not in the store would be overwritten or removed, unless `force`; kNotFound where content that must
// be written is not here.
CheckoutPlan plan_checkout(const Store& store, std::vector<Entry> wanted, const std::string& folder,
                           const CheckoutOptions& options, StatCache* cache, Pool& pool, Progress& progress);

// Files that could not be linked as asked are copied, and `progress` is warned once.
struct CheckoutReport {
  std::uint64_t linked = 0, copied = 0;  // files
};
CheckoutReport carry_out(const Store& store, const CheckoutPlan& plan, LinkMode link, StatCache* cache, Pool& pool,
                         Progress& progress);

// The entries at `path` or below it; all where it is "".
std::vector<Entry> entries_inside(const std::vector<Entry>& entries, const std::string& path);
bool is_inside(std::string_view entry_path, std::string_view path);

}  // namespace mlx::store
