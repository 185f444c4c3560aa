// bench_sum: what mlx's sum over two ranks takes by itself, as a training makes it (dist/tree_sum.h). ddp.py runs it.
//
// usage: mpirun --np 2 bench_sum FLOATS ROUNDS
//
// Prints the median seconds of a sum, each begun after a small one that holds the ranks together, as seen by the slower
// rank. The thread that exchanges is the only one that works.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/clock.h"
#include "base/environment.h"
#include "base/error.h"
#include "dist/mpi.h"
#include "dist/tree_sum.h"

namespace {

using namespace mlx;

void hold_together(dist::Communicator& ranks) {
  dist::TreeSum sum(2, ranks.rank(), ranks.ranks(), ranks.ranks());
  sum.put(0, std::vector<float>{1, 1});
  sum.add();
  sum.exchange(ranks, 1);
}

double slower(dist::Communicator& ranks, double seconds) {
  dist::TreeSum sum(2, ranks.rank(), ranks.ranks(), ranks.ranks());
  std::vector<float> both(2, 0.0f);
  both[static_cast<std::size_t>(ranks.rank())] = static_cast<float>(seconds);
  sum.put(0, both);
  sum.add();
  sum.exchange(ranks, 2);
  return std::max(sum.result()[0], sum.result()[1]);
}

double median_seconds(dist::Communicator& ranks, std::int64_t count, int rounds) {
  dist::TreeSum sum(count, ranks.rank(), ranks.ranks(), ranks.ranks());
  const std::vector<float> own(static_cast<std::size_t>(count), static_cast<float>(ranks.rank() + 1));
  std::vector<double> seconds;
  for (int round = -3; round < rounds; ++round) {
    sum.put(0, own);
    sum.add();
    hold_together(ranks);
    const double began = seconds_now();
    sum.exchange(ranks, 0);
    const double took = slower(ranks, seconds_now() - began);
    CHECK(sum.result()[count - 1] == 3.0f);
    sum.clear();
    if (round >= 0) seconds.push_back(took);
  }
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

}  // namespace

int main(int argc, char** argv) try {
  const int started = dist::ranks_started(process_environment());
  if (argc != 3 || started != 2) {
    fmt::print(stderr, "usage: mpirun --np 2 bench_sum FLOATS ROUNDS\n");
    return 2;
  }
  const auto ranks = dist::join_ranks(started);
  const double seconds = median_seconds(*ranks, std::atoll(argv[1]), std::atoi(argv[2]));
  if (ranks->rank() == 0) fmt::print("{:.9f}\n", seconds);
  return 0;
} catch (const mlx::Error& error) {
  fmt::print(stderr, "bench_sum: {}\n", error.what());
  return 1;
}
