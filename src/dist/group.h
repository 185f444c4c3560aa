// Some of the ranks of a communicator, as a communicator of their own.
#pragma once

#include <memory>
#include <vector>

#include "dist/communicator.h"

namespace mlx::dist {

// Rank i of the group is rank members[i] of `all`, which must outlive it; this rank is one of them. Names and activity
// are those of `all`. A message between two members has the same tag in both, so they do not use both at a time.
std::unique_ptr<Communicator> group_of(Communicator& all, std::vector<int> members);

}  // namespace mlx::dist
