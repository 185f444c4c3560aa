// How many of a step's micro-batches each rank gets if ranks are not equally fast. Which rank adds a term of the tree
// (sum_tree.h) changes no bit of the sum, so shares may change between steps.
#pragma once

#include <vector>

#include "dist/sum_tree.h"

namespace mlx::dist {

// Those of all ranks: consecutive, in their order, each at least one.
using Shares = std::vector<Terms>;
Shares even_shares(int ranks, int terms);

// A rank gets at most so many: twice as many as if all got the same, since a share takes memory.
int most_of_shares(int ranks, int terms);
// The shares with which the slowest rank is done first, if rank r needs seconds[r] for a term. A share is at most two
// nodes of the tree, or as many as an even share, because each node is sent; of equally good shares those with the
// fewest nodes. The same on all ranks that have the same figures.
Shares fastest_shares(const std::vector<double>& seconds, int terms);
// When the last rank is done.
double seconds_of(const Shares& shares, const std::vector<double>& seconds);

}  // namespace mlx::dist
