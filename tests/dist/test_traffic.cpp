// What is computed of a step's traffic is what ranks send, and how long it takes.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <mutex>

#include "base/clock.h"
#include "borrowed.h"
#include "dist/gradient_sum.h"
#include "paced_ranks.h"
#include "ranks.h"

using namespace mlx;
using namespace mlx::dist;

namespace {

class Counted final : public Borrowed {
 public:
  using Borrowed::Borrowed;
  Transfer send(int to, int tag, const void* data, std::size_t bytes) override {
    sent_.bytes += static_cast<std::int64_t>(bytes);
    ++sent_.messages;
    return Borrowed::send(to, tag, data, bytes);
  }
  const Traffic& sent() const { return sent_; }

 private:
  Traffic sent_;
};

// One step; returns what the rank has sent.
GradientSum::Cost step_of(Communicator& rank, const std::vector<SummedArray>& arrays, int terms) {
  GradientSum sum(rank, terms, arrays);
  for (int term = sum.terms().begin; term < sum.terms().end; ++term) {
    for (std::size_t i = 0; i < arrays.size(); ++i)
      sum.add(i, std::vector<float>(static_cast<std::size_t>(arrays[i].count), 1));
    sum.end_term();
  }
  sum.wait();
  for (std::size_t i = 0; i < sum.layout().buckets.size(); ++i)
    if (rank.ranks() > 1 && sum.layout().buckets[i].owned) sum.gather(i);
  sum.finish_gathers();
  return sum.cost();
}

constexpr std::int64_t kCounts[] = {9, 3000, 70000, 100, 81234};

std::vector<SummedArray> arrays_of(Wire wire, bool owned) {
  std::vector<SummedArray> out;
  for (const std::int64_t count : kCounts) out.push_back({count, wire, owned});
  out[0] = {kCounts[0]};
  return out;
}

}  // namespace

TEST_CASE("traffic: bytes and messages of a step are those that ranks send, for every world, wire and owner") {
  for (const Wire wire : {Wire::kF32, Wire::kBF16}) {
    for (const bool owned : {false, true}) {
      const std::vector<SummedArray> arrays = arrays_of(wire, owned);
      for (const int ranks : {1, 2, 3, 4, 8, 16}) {
        for (const int terms : {ranks, ranks + 1, 2 * ranks}) {
          std::mutex mutex;
          Traffic most;
          bool told = true;
          on_ranks(ranks, [&](Communicator& inner) {
            Counted rank(inner);
            const std::int64_t sent = step_of(rank, arrays, terms).bytes_sent;
            const std::lock_guard lock(mutex);
            told = told && sent == rank.sent().bytes;
            if (rank.sent().bytes > most.bytes) most = rank.sent();
          });
          CAPTURE(ranks);
          CAPTURE(terms);
          CHECK(told);
          const Traffic traffic = traffic_of(arrays, ranks, terms);
          CHECK_EQ(traffic.bytes, most.bytes);
          if (terms % ranks == 0) CHECK_EQ(traffic.messages, most.messages);  // as many for each rank
        }
      }
    }
  }
}

TEST_CASE("traffic: ranks of a power of two send less than twice the model, however many they are") {
  const std::vector<SummedArray> arrays = arrays_of(Wire::kF32, false);
  std::int64_t model = 0;
  for (const std::int64_t count : kCounts) model += 4 * count;
  const std::int64_t of_two = traffic_of(arrays, 2, 2).bytes;
  CHECK_EQ(of_two, model);
  const auto buckets = static_cast<std::int64_t>(layout_of(arrays, 8).buckets.size());
  for (const int ranks : {8, 64, 512, 4096}) {
    const Traffic traffic = traffic_of(arrays, ranks, ranks);
    CAPTURE(ranks);
    // Parts begin at multiples of 64 bytes: in each bucket a rank has up to so many more.
    CHECK(traffic.bytes < 2 * model + 64 * ranks * static_cast<std::int64_t>(arrays.size()));
    const std::int64_t rounds = std::countr_zero(static_cast<unsigned>(ranks));
    CHECK(traffic.messages <= 2 * rounds * buckets);
    CHECK(traffic.messages >= rounds * (buckets + 1));  // small buckets are sent whole
  }
}

TEST_CASE("traffic: the seconds of a step are those that ranks take, on 2, 4 and 8 ranks over a slow network") {
  const std::vector<SummedArray> arrays = arrays_of(Wire::kF32, false);
  const Link link{0.05, 2e6, 0};
  for (const int ranks : {2, 4, 8}) {
    double slowest = 0;
    std::mutex mutex;
    on_ranks(ranks, [&](Communicator& inner) {
      PacedRank rank(inner, link);
      const double began = seconds_now();
      step_of(rank, arrays, ranks);
      const double took = seconds_now() - began;
      const std::lock_guard lock(mutex);
      slowest = std::max(slowest, took);
    });
    const double expected = step_seconds(arrays, ranks, ranks, {}, link);
    CAPTURE(ranks);
    CAPTURE(expected);
    CAPTURE(slowest);
    CHECK(expected > 0.3);
    CHECK(slowest > 0.9 * expected);
    CHECK(slowest < 1.3 * expected + 0.1);  // other work on the machine
  }
}

TEST_CASE("traffic: what is sent while the backward pass runs takes no time of the step") {
  const std::vector<SummedArray> arrays = arrays_of(Wire::kF32, false);
  const Link fast{1e-5, 1e9, 0};
  const double alone = step_seconds(arrays, 1, 1, {0.1, 1}, fast);
  CHECK_EQ(alone, 1);
  const double two = step_seconds(arrays, 2, 2, {0.1, 1}, fast);
  CHECK(two > 1);
  CHECK(two < 1.001);
  const Link dear{1e-5, 1e9, 1e-3};  // a millisecond a message
  CHECK(step_seconds(arrays, 512, 512, {0.1, 1}, dear) > 1.01);
}
