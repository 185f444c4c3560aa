// Rows and columns of a grid of ranks.
#include "dist/rank_grid.h"

#include <vector>

#include "base/error.h"
#include "dist/group.h"

namespace mlx::dist {

RankGrid::RankGrid(Communicator& all, int parts, int stages) : all_(all) {
  const int row = parts * stages, own = all.rank();
  CHECK(parts >= 1 && stages >= 1 && all.ranks() % row == 0);
  pipeline_ = lone_rank();
  if (row == 1) {
    row_ = lone_rank();
    return;
  }
  const auto group = [&](const auto& has) {
    std::vector<int> members;
    for (int rank = 0; rank < all.ranks(); ++rank)
      if (has(rank)) members.push_back(rank);
    return group_of(all, members);
  };
  row_ = group([&](int rank) { return rank / row == own / row; });
  column_ = group([&](int rank) { return rank % row == own % row; });
  if (stages == 1) return;
  stage_ = group([&](int rank) { return rank / parts == own / parts; });
  pipeline_ = group([&](int rank) { return rank / row == own / row && rank % parts == own % parts; });
}

}  // namespace mlx::dist
