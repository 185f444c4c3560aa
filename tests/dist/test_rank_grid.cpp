// Rows and columns of ranks, and sums over them.
#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "dist/all_reduce.h"
#include "dist/collectives.h"
#include "dist/rank_grid.h"
#include "ranks.h"

using namespace mlx;
using namespace mlx::dist;

namespace {

// Throws, because doctest's own checks are not for threads.
void expect(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

// Values whose sum depends on the order in which they are added.
float rank_term(int rank, std::size_t at) {
  const float big = rank % 2 == 0 ? 3e7f : -3e7f;
  return (at % 3 == 0 ? big : 0.1f) + static_cast<float>(rank) + static_cast<float>(at % 17) / 7.0f;
}

void sums_in_order(Communicator& ranks, const std::vector<int>& members) {
  AllReduce sum(ranks);
  const auto piece = static_cast<std::size_t>(AllReduce::kPiece);
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{5000}, piece + 13}) {
    const int own = members[static_cast<std::size_t>(ranks.rank())];
    std::vector<float> data(size);
    for (std::size_t i = 0; i < size; ++i) data[i] = rank_term(own, i);
    const std::int64_t sent = sum.sum(data);
    expect((sent > 0) == (size > 0 && ranks.ranks() > 1), "bytes sent");
    for (std::size_t i = 0; i < size; ++i) {
      float expected = rank_term(members[0], i);
      for (std::size_t k = 1; k < members.size(); ++k) expected += rank_term(members[k], i);
      expect(data[i] == expected, "another sum");
    }
  }
}

std::vector<int> all_ranks(int count) {
  std::vector<int> out;
  for (int i = 0; i < count; ++i) out.push_back(i);
  return out;
}

}  // namespace

TEST_CASE("an all-reduce adds in the order of ranks, on every rank to the same bits") {
  for (const int count : {1, 2, 3, 4, 5}) {
    CAPTURE(count);
    CHECK_NOTHROW(on_ranks(count, [](Communicator& ranks) { sums_in_order(ranks, all_ranks(ranks.ranks())); }));
  }
}

TEST_CASE("a grid's rows and columns are communicators of their own") {
  struct Shape {
    int ranks, row;
  };
  for (const Shape shape : {Shape{4, 1}, Shape{4, 2}, Shape{4, 4}, Shape{6, 2}, Shape{6, 3}}) {
    CAPTURE(shape.ranks);
    CAPTURE(shape.row);
    CHECK_NOTHROW(on_ranks(shape.ranks, [&](Communicator& all) {
      const RankGrid grid(all, shape.row);
      expect(grid.row().ranks() == shape.row && grid.row().rank() == all.rank() % shape.row, "row");
      expect(grid.column().ranks() == shape.ranks / shape.row && grid.column().rank() == all.rank() / shape.row,
             "column");
      expect(grid.column().name() == all.name(), "name");
      std::vector<int> in_row, in_column;
      for (int i = 0; i < shape.row; ++i) in_row.push_back(all.rank() / shape.row * shape.row + i);
      for (int i = 0; i < shape.ranks / shape.row; ++i) in_column.push_back(i * shape.row + all.rank() % shape.row);
      // Messages of both are under way at once, with the same tags.
      std::vector<Communicator::Transfer> transfers;
      std::vector<int> sent(2, all.rank()), received(2, -1);
      const auto pass_on = [&](Communicator& ranks, std::size_t which) {
        if (ranks.ranks() == 1) return;
        const int next = (ranks.rank() + 1) % ranks.ranks(), last = (ranks.rank() + ranks.ranks() - 1) % ranks.ranks();
        transfers.push_back(ranks.send(next, 0, &sent[which], sizeof(int)));
        transfers.push_back(ranks.receive(last, 0, &received[which], sizeof(int)));
      };
      pass_on(grid.row(), 0), pass_on(grid.column(), 1);
      all.wait(transfers);
      const auto before = [](const std::vector<int>& members, int rank) {
        return members[(static_cast<std::size_t>(rank) + members.size() - 1) % members.size()];
      };
      if (shape.row > 1) expect(received[0] == before(in_row, grid.row().rank()), "a row's message");
      if (in_column.size() > 1) expect(received[1] == before(in_column, grid.column().rank()), "a column's message");
      sums_in_order(grid.row(), in_row);
      sums_in_order(grid.column(), in_column);
      barrier(grid.row());
      barrier(grid.column());
    }));
  }
}

TEST_CASE("a grid's rows are grids of stages and parts") {
  CHECK_NOTHROW(on_ranks(8, [](Communicator& all) {
    const RankGrid grid(all, 2, 2);
    const int own = all.rank(), row = own / 4, stage = own % 4 / 2, part = own % 2;
    expect(grid.row().ranks() == 4 && grid.row().rank() == own % 4, "row");
    expect(grid.column().ranks() == 2 && grid.column().rank() == row, "column");
    expect(grid.stage().ranks() == 2 && grid.stage().rank() == part, "stage");
    expect(grid.pipeline().ranks() == 2 && grid.pipeline().rank() == stage, "pipeline");
    sums_in_order(grid.column(), {own % 4, own % 4 + 4});
    sums_in_order(grid.stage(), {own - part, own - part + 1});
    sums_in_order(grid.pipeline(), {own - 2 * stage, own - 2 * stage + 2});
  }));
  CHECK_NOTHROW(on_ranks(2, [](Communicator& all) {
    const RankGrid grid(all, 1, 2);
    expect(grid.stage().ranks() == 1 && grid.pipeline().ranks() == 2 && grid.column().ranks() == 1, "stages alone");
  }));
}
