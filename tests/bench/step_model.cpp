// bench_step: what a step of data-parallel training sends, and the seconds that it takes, as mlx computes them
// (dist/traffic.h). dist.py runs it with figures that it has measured.
//
// usage: bench_step LATENCY BYTES_PER_SECOND PER_MESSAGE BACKWARD END COUNT... -- RANKS...
//
// Times are seconds, COUNT the elements of each gradient in the order of the backward pass, which begins at BACKWARD
// and ends at END. Each rank has one micro-batch. Prints for each number of ranks the bytes and messages of the rank
// that sends most, and the seconds of a step.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "dist/traffic.h"

int main(int argc, char** argv) {
  using namespace mlx::dist;
  std::vector<SummedArray> arrays;
  int at = 6;
  for (; at < argc && std::string_view(argv[at]) != "--"; ++at) arrays.push_back({std::atoll(argv[at])});
  if (arrays.empty() || at + 1 >= argc) {
    fmt::print(stderr, "usage: bench_step LATENCY BYTES_PER_SECOND PER_MESSAGE BACKWARD END COUNT... -- RANKS...\n");
    return 2;
  }
  const Link link{std::atof(argv[1]), std::atof(argv[2]), std::atof(argv[3])};
  const Compute compute{std::atof(argv[4]), std::atof(argv[5])};
  for (++at; at < argc; ++at) {
    const int ranks = std::atoi(argv[at]);
    const Traffic traffic = traffic_of(arrays, ranks, ranks);
    fmt::print("{} {} {} {:.9f}\n", ranks, traffic.bytes, traffic.messages,
               step_seconds(arrays, ranks, ranks, compute, link));
  }
  return 0;
}
