// bench_sum: what mlx's sum over ranks takes by itself, as a training makes it (dist/tree_sum.h). ddp.py and dist.py
// run it.
//
// usage: mpirun --np RANKS bench_sum FLOATS ROUNDS [sealed]
//        bench_sum ciphers
//
// Prints the median seconds of a sum, each begun after a small one that holds the ranks together, as seen by the
// slowest rank. The thread that exchanges is the only one that works. `sealed`: as with `mlx train --encrypt`, on two
// ranks. `ciphers` prints the seconds that one core takes to seal, and to open, a GiB in frames as ranks send them.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/process_use.h"
#include "dist/mpi.h"
#include "dist/sealed.h"
#include "dist/tree_sum.h"

namespace {

using namespace mlx;

void hold_together(dist::Communicator& ranks) {
  dist::TreeSum sum(2, ranks.rank(), ranks.ranks(), ranks.ranks());
  sum.put(0, std::vector<float>{1, 1});
  sum.add();
  sum.exchange(ranks, 1);
}

double slowest(dist::Communicator& ranks, double seconds) {
  dist::TreeSum sum(ranks.ranks(), ranks.rank(), ranks.ranks(), ranks.ranks());
  std::vector<float> all(static_cast<std::size_t>(ranks.ranks()), 0.0f);
  all[static_cast<std::size_t>(ranks.rank())] = static_cast<float>(seconds);
  sum.put(0, all);
  sum.add();
  sum.exchange(ranks, 2);
  return *std::max_element(sum.result(), sum.result() + ranks.ranks());
}

double median_seconds(dist::Communicator& ranks, std::int64_t count, int rounds) {
  dist::TreeSum sum(count, ranks.rank(), ranks.ranks(), ranks.ranks());
  const std::vector<float> own(static_cast<std::size_t>(count), static_cast<float>(ranks.rank() + 1));
  const auto expected = static_cast<float>(ranks.ranks() * (ranks.ranks() + 1) / 2);
  std::vector<double> seconds;
  for (int round = -3; round < rounds; ++round) {
    sum.put(0, own);
    sum.add();
    hold_together(ranks);
    const double began = seconds_now();
    sum.exchange(ranks, 0);
    const double took = slowest(ranks, seconds_now() - began);
    CHECK(sum.result()[count - 1] == expected);
    sum.clear();
    if (round >= 0) seconds.push_back(took);
  }
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

// Processor time, of the best of five rounds.
void print_ciphers() {
  constexpr std::size_t kFrame = std::size_t{256} << 10, kFrames = 4096;
  const Bytes key(32, 1), header(32, 2);
  Bytes plain(kFrame, 3), sealed(kFrame + kTagSize), nonce(kNonceSize);
  AesGcm cipher(key);
  double seals = 1e9, opens = 1e9;
  for (int round = 0; round < 5; ++round) {
    double began = cpu_seconds();
    for (std::size_t i = 0; i < kFrames; ++i) cipher.seal(nonce, header, plain, sealed.data());
    seals = std::min(seals, cpu_seconds() - began);
    began = cpu_seconds();
    for (std::size_t i = 0; i < kFrames; ++i) CHECK(cipher.open(nonce, header, sealed, plain.data()));
    opens = std::min(opens, cpu_seconds() - began);
  }
  fmt::print("{:.4f} {:.4f}\n", seals, opens);
}

}  // namespace

int main(int argc, char** argv) try {
  const int started = dist::ranks_started(process_environment());
  const std::string last = argc > 1 ? argv[argc - 1] : "";
  if (argc == 2 && last == "ciphers") return print_ciphers(), 0;
  const bool sealed = argc == 4 && last == "sealed";
  if ((argc != 3 && !sealed) || started < 2 || (sealed && started != 2)) {
    fmt::print(stderr, "usage: mpirun --np RANKS bench_sum FLOATS ROUNDS [sealed]\n       bench_sum ciphers\n");
    return 2;
  }
  auto ranks = dist::join_ranks(started);
  if (sealed) ranks = dist::sealed_ranks(std::move(ranks), {{}, Secret(32), {{"here", 2}}});
  const double seconds = median_seconds(*ranks, std::atoll(argv[1]), std::atoi(argv[2]));
  if (ranks->rank() == 0) fmt::print("{:.9f}\n", seconds);
  return 0;
} catch (const mlx::Error& error) {
  fmt::print(stderr, "bench_sum: {}\n", error.what());
  return 1;
}
