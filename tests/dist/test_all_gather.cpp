// What ranks exchange in the middle of a step, while sums of gradients are under way.
#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>

#include "dist/all_gather.h"
#include "dist/gradient_sum.h"
#include "ranks.h"

using namespace mlx;
using namespace mlx::dist;

namespace {

// Throws, because doctest's own checks are not for threads.
void require(bool holds) {
  if (!holds) throw std::runtime_error("it does not hold");
}

Bytes bytes_of(int rank, int turn, std::size_t size) {
  Bytes out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::uint8_t>(rank * 50 + turn * 7 + static_cast<int>(i));
  return out;
}

// Whether all get the bytes of each, in their order.
void gathers(Communicator& ranks, int turn, std::size_t size) {
  Bytes all(size * static_cast<std::size_t>(ranks.ranks()));
  const Traffic sent = all_gather(ranks, bytes_of(ranks.rank(), turn, size), all);
  require(sent.bytes == static_cast<std::int64_t>(size) * (ranks.ranks() - 1));
  require(sent.messages == ranks.ranks() - 1);
  for (int rank = 0; rank < ranks.ranks(); ++rank) {
    const Bytes expected = bytes_of(rank, turn, size);
    require(std::ranges::equal(expected, ByteView(all).subspan(static_cast<std::size_t>(rank) * size, size)));
  }
}

}  // namespace

TEST_CASE("all gather: every rank has what all have, in their order") {
  for (const int count : {1, 2, 3, 5})
    CHECK_NOTHROW(on_ranks(count, [](Communicator& ranks) {
      for (const std::size_t size : {0, 1, 64, 5000}) gathers(ranks, 3, size);
    }));
}

TEST_CASE("all gather: between buckets that are under way, which have the same sums") {
  constexpr std::int64_t kCount = 200000;
  for (const bool in_background : {true, false}) {
    for (const int count : {2, 3, 4}) {
      CAPTURE(in_background);
      CAPTURE(count);
      CHECK_NOTHROW(on_ranks(count, [&](Communicator& ranks) {
        GradientSum sum(ranks, count, {{kCount}, {kCount}, {kCount}}, in_background);
        for (int step = 0; step < 3; ++step) {
          sum.between([&] { gathers(ranks, step, 256); });
          for (int array = 0; array < 3; ++array) {
            const std::vector<float> own(kCount, static_cast<float>(ranks.rank() + array + step));
            sum.add(static_cast<std::size_t>(array), own);
            for (int turn = 0; turn < 4; ++turn) sum.between([&] { gathers(ranks, turn, 64); });
          }
          sum.end_term();
          sum.wait();
          const int first = count * (count - 1) / 2;
          for (int array = 0; array < 3; ++array) {
            const std::span<float> got = sum.sum(static_cast<std::size_t>(array));
            const auto expected = static_cast<float>(first + count * (array + step));
            require(std::ranges::all_of(got, [&](float x) { return x == expected; }));
          }
          sum.end_step();
        }
      }));
    }
  }
}

TEST_CASE("all gather: what goes wrong between buckets is told where it is waited for") {
  CHECK_THROWS_WITH(on_ranks(2,
                             [](Communicator& ranks) {
                               GradientSum sum(ranks, 2, {{16}});
                               sum.between([] { throw std::runtime_error("torn"); });
                             }),
                    "torn");
}
