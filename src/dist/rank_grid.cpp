// Rows and columns of a grid of ranks.
#include "dist/rank_grid.h"

#include <vector>

#include "base/error.h"
#include "dist/group.h"

namespace mlx::dist {

RankGrid::RankGrid(Communicator& all, int row) : all_(all) {
  CHECK(row >= 1 && all.ranks() % row == 0);
  if (row == 1) {
    row_ = lone_rank();
    return;
  }
  std::vector<int> in_row, in_column;
  for (int rank = 0; rank < all.ranks(); ++rank) {
    if (rank / row == all.rank() / row) in_row.push_back(rank);
    if (rank % row == all.rank() % row) in_column.push_back(rank);
  }
  row_ = group_of(all, in_row);
  column_ = group_of(all, in_column);
}

}  // namespace mlx::dist
