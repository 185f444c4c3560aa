// Files that only changed their name: the same content and mode, gone here and new there. Used by diff and status.
#pragma once

#include <utility>
#include <vector>

#include "store/worktree/worktree.h"

namespace mlx::store {

using Moves = std::vector<std::pair<Entry, Entry>>;  // before, after; sorted by the new path

// Takes what was moved out of `difference.added` and `.removed`. Where several files have the same content, those that
// kept their base name go together first, then the others in their order. Empty files are never counted as moved.
Moves take_moves(Difference& difference);

}  // namespace mlx::store
