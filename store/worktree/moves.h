// Files that only changed their name: removed here and added there with the same content and mode. Used by diff and
// status.
#pragma once

#include <utility>
#include <vector>

#include "store/worktree/scan.h"

namespace mlx::store {

using Moves = std::vector<std::pair<Entry, Entry>>;  // before, after; sorted by the new path

// Moves such pairs out of `difference.added` and `.removed`. If several files have the same content, those with the
// same base name are paired first, then the others in their order. Empty files never count as moved.
Moves take_moves(Difference& difference);

}  // namespace mlx::store
