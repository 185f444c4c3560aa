// Sums have the same bits however many ranks make them.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <thread>

#include "dist/gradient_sum.h"
#include "ranks.h"

using namespace mlx;
using namespace mlx::dist;

namespace {

// Numbers of many magnitudes, so that the order of a sum shows in its bits.
std::vector<float> term_of(int term, std::int64_t count) {
  std::mt19937 random(static_cast<unsigned>(term + 1));
  std::vector<float> out(static_cast<std::size_t>(count));
  for (float& x : out) x = std::ldexp(static_cast<float>(random()) / 4e9f - 0.5f, static_cast<int>(random() % 24) - 12);
  return out;
}

// The definition: the first half, and the rest.
std::vector<float> sum_of(int begin, int end, std::int64_t count) {
  if (end - begin == 1) return term_of(begin, count);
  const int middle = begin + (end - begin) / 2;
  std::vector<float> out = sum_of(begin, middle, count);
  const std::vector<float> rest = sum_of(middle, end, count);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] += rest[i];
  return out;
}

bool same_bits(std::span<const float> a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

}  // namespace

TEST_CASE("the nodes of any run of terms cover it, are in the tree, and cannot be joined") {
  for (int terms = 1; terms <= 33; ++terms) {
    for (int begin = 0; begin < terms; ++begin) {
      for (int end = begin + 1; end <= terms; ++end) {
        int at = begin;
        const std::vector<Terms> nodes = nodes_of({begin, end}, terms);
        for (std::size_t i = 0; i < nodes.size(); ++i) {
          REQUIRE_EQ(nodes[i].begin, at);
          REQUIRE(is_node(nodes[i], terms));
          if (i > 0) REQUIRE_FALSE(is_node({nodes[i - 1].begin, nodes[i].end}, terms));
          at = nodes[i].end;
        }
        REQUIRE_EQ(at, end);
      }
    }
  }
  CHECK_EQ(nodes_of({0, 8}, 8).size(), 1);
  CHECK_EQ(nodes_of({2, 4}, 8).size(), 1);  // a power of two shares evenly: one node a rank
  CHECK_EQ(nodes_of({3, 6}, 12).size(), 1);
}

TEST_CASE("a sum has the bits of its definition on any number of ranks, for any number of terms") {
  for (const int ranks : {1, 2, 3, 4, 5, 8, 16}) {
    for (const int terms : {1, 2, 3, 4, 6, 8, 13, 16, 23}) {
      if (terms < ranks) continue;
      for (const std::int64_t count : {1, 15, 17, 64, 9000}) {
        CAPTURE(ranks);
        CAPTURE(terms);
        CAPTURE(count);
        const std::vector<float> expected = sum_of(0, terms, count);
        std::atomic<int> right = 0;
        on_ranks(ranks, [&](Communicator& communicator) {
          TreeSum sum(count, communicator.rank(), ranks, terms);
          for (int step = 0; step < 2; ++step) {  // its memory is used again
            const Terms own = terms_of(communicator.rank(), ranks, terms);
            for (int term = own.begin; term < own.end; ++term) {
              const std::vector<float> values = term_of(term, count);
              const std::span<const float> all = values;
              sum.put(0, all.first(all.size() / 2));
              sum.put(static_cast<std::int64_t>(all.size() / 2), all.subspan(all.size() / 2));
              sum.add();
            }
            sum.exchange(communicator, 0);
            if (same_bits({sum.result(), static_cast<std::size_t>(count)}, expected)) ++right;
            sum.clear();
          }
        });
        CHECK_EQ(right, 2 * ranks);
      }
    }
  }
}

TEST_CASE("a rank sends what the best all-reduce sends if the ranks are a power of two") {
  for (const int ranks : {2, 4, 8, 16}) {
    std::atomic<std::int64_t> sent = 0;
    constexpr std::int64_t kCount = 16 * 1024;
    on_ranks(ranks, [&](Communicator& communicator) {
      TreeSum sum(kCount, communicator.rank(), ranks, 16);
      const Terms own = terms_of(communicator.rank(), ranks, 16);
      for (int term = own.begin; term < own.end; ++term) sum.put(0, term_of(term, kCount)), sum.add();
      sent += sum.exchange(communicator, 0);
    });
    CHECK_EQ(sent, 2 * (ranks - 1) * kCount * 4);  // of all ranks
  }
}

TEST_CASE("many ranks exchange one message with one other in each round, neighbours first") {
  const std::vector<HalvingRound> rounds = halving_rounds(5, 8, [](int part) { return 10 * part; });
  REQUIRE_EQ(rounds.size(), 3);
  CHECK_EQ(rounds[0].other, 4);
  CHECK_EQ(rounds[0].kept.begin, 40);
  CHECK_EQ(rounds[0].given.begin, 0);
  CHECK_EQ(rounds[0].given.end, 40);
  CHECK_EQ(rounds[1].other, 7);
  CHECK_EQ(rounds[2].other, 1);
  CHECK_EQ(rounds[2].kept.begin, 10 * part_of(5, 8));
  CHECK_EQ(rounds[2].kept.size(), 10);
  for (const int ranks : {1, 2, 4, 5, 8, 64}) {
    std::vector<bool> taken(static_cast<std::size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) taken.at(static_cast<std::size_t>(part_of(rank, ranks))) = true;
    CHECK(std::ranges::count(taken, true) == ranks);
  }
  const TreeSum sum(1 << 20, 3, 512, 1024);
  CHECK_EQ(total(sum.reducing()).messages, 9);
  CHECK_EQ(total(sum.gathering()).messages, 9);
  CHECK_EQ(total(sum.gathering()).bytes, 511 * ((1 << 20) / 512) * 4);
  TreeSum uneven(1 << 20, 3, 8, 16);  // a share that is no node of the tree
  CHECK_EQ(total(uneven.reducing()).messages, 3);
  Shares shares = even_shares(8, 16);
  shares[0].end = shares[1].begin = 3;
  uneven.share(shares);
  CHECK_EQ(total(uneven.reducing()).messages, 7);
}

TEST_CASE("shares that are no nodes of the tree are sent to each rank, and change no bit") {
  constexpr std::int64_t kCount = 9000;
  constexpr int kRanks = 8, kTerms = 16;
  const std::vector<float> expected = sum_of(0, kTerms, kCount);
  Shares uneven = even_shares(kRanks, kTerms);
  uneven[2].end = uneven[3].begin = 5;
  std::atomic<int> right = 0;
  on_ranks(kRanks, [&](Communicator& communicator) {
    TreeSum sum(kCount, communicator.rank(), kRanks, kTerms);
    for (const Shares& shares : {even_shares(kRanks, kTerms), uneven, even_shares(kRanks, kTerms)}) {
      sum.share(shares);
      const Terms own = shares[static_cast<std::size_t>(communicator.rank())];
      for (int term = own.begin; term < own.end; ++term) sum.put(0, term_of(term, kCount)), sum.add();
      sum.exchange(communicator, 0);
      if (same_bits({sum.result(), static_cast<std::size_t>(kCount)}, expected)) ++right;
      sum.clear();
    }
  });
  CHECK_EQ(right, 3 * kRanks);
}

TEST_CASE("a small array goes to all ranks at once") {
  std::atomic<std::int64_t> sent = 0;
  on_ranks(4, [&](Communicator& communicator) {
    TreeSum sum(64, communicator.rank(), 4, 4);
    sum.put(0, term_of(communicator.rank(), 64));
    sum.add();
    sent += sum.exchange(communicator, 0);
  });
  CHECK_EQ(sent, 4 * 3 * 64 * 4);
}

TEST_CASE("sums that are under way side by side have the bits of their definition") {
  constexpr std::int64_t kCount = 9000;
  for (const int ranks : {2, 3, 4, 8}) {
    std::atomic<int> right = 0;
    on_ranks(ranks, [&](Communicator& communicator) {
      std::vector<TreeSum> sums;
      for (int tag = 0; tag < 3; ++tag) {
        TreeSum& sum = sums.emplace_back(kCount, communicator.rank(), ranks, ranks);
        sum.put(0, term_of(ranks * tag + communicator.rank(), kCount));
        sum.add();
        sum.begin(communicator, tag);
      }
      for (std::size_t i = sums.size(); i-- > 0;)
        while (!sums[i].advance(communicator)) continue;
      for (int tag = 0; tag < 3; ++tag) {
        TreeSum expected(kCount, 0, 1, ranks);
        for (int term = 0; term < ranks; ++term) expected.put(0, term_of(ranks * tag + term, kCount)), expected.add();
        const std::vector<float> bits(expected.result(), expected.result() + kCount);
        if (same_bits({sums[static_cast<std::size_t>(tag)].result(), static_cast<std::size_t>(kCount)}, bits)) ++right;
      }
    });
    CHECK_EQ(right, 3 * ranks);
  }
}

TEST_CASE("gradients are summed by buckets, in whatever order a micro-batch adds them") {
  // Arrays that are a bucket of their own, and arrays that share one.
  const std::vector<std::int64_t> counts{3, (GradientSum::kBucket / 4) - 3, 1, 7, GradientSum::kBucket / 4, 5};
  std::vector<std::vector<float>> expected;
  for (std::size_t i = 0; i < counts.size(); ++i) expected.push_back(sum_of(0, 4, counts[i]));
  std::atomic<int> right = 0;
  on_ranks(2, [&](Communicator& communicator) {
    std::vector<GradientSum::Array> arrays;
    arrays.reserve(counts.size());
    for (const std::int64_t count : counts) arrays.push_back({count});
    GradientSum sum(communicator, 4, arrays);
    REQUIRE_EQ(sum.arrays(), counts.size());
    for (int term = sum.terms().begin; term < sum.terms().end; ++term) {
      for (std::size_t i = counts.size(); i-- > 0;) sum.add(i, term_of(term, counts[i]));
      sum.end_term();
    }
    sum.wait();
    for (std::size_t i = 0; i < counts.size(); ++i) right += same_bits(sum.sum(i), expected[i]) ? 1 : 0;
    sum.end_step();
    const GradientSum::Cost cost = sum.cost();
    const std::int64_t all = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    if (cost.bytes_sent > all * 4 - 1024 && cost.bytes_sent < all * 4 + 1024) ++right;
  });
  CHECK_EQ(right, 2 * (static_cast<int>(counts.size()) + 1));
}

TEST_CASE("sums of several steps are on their way at once, and each waits for its turn") {
  constexpr int kSteps = 9, kWaiting = 3;
  constexpr std::int64_t kCount = 70'000;  // a bucket of its own
  const auto value_of = [](int step, int term) { return term_of(100 * step + term, kCount); };
  for (const int ranks : {1, 2, 3, 8}) {
    std::vector<std::vector<float>> expected;
    for (int step = 0; step < kSteps; ++step) {
      TreeSum sum(kCount, 0, 1, 8);
      for (int term = 0; term < 8; ++term) sum.put(0, value_of(step, term)), sum.add();
      expected.emplace_back(sum.result(), sum.result() + kCount);
    }
    std::atomic<int> right = 0;
    on_ranks(ranks, [&](Communicator& communicator) {
      GradientSum sum(communicator, 8, {{kCount}, {5}, {kCount}}, true, kWaiting);
      int ended = 0;
      const auto end_first = [&] {
        sum.wait();
        const std::vector<float>& whole = expected[static_cast<std::size_t>(ended++)];
        if (same_bits(sum.sum(0), whole) && same_bits(sum.sum(2), whole) && sum.sum(1)[0] == 8) ++right;
        sum.end_step();
      };
      for (int step = 0; step < kSteps; ++step) {
        if (communicator.rank() == ranks - 1) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        for (int term = sum.terms().begin; term < sum.terms().end; ++term) {
          for (const std::size_t i : {0u, 2u}) sum.add(i, value_of(step, term));
          sum.add(1, std::vector<float>(5, 1.0f));
          sum.end_term();
        }
        CHECK_EQ(sum.waits(), step - ended + 1);
        if (sum.waits() > kWaiting) end_first();
        if (step != 5) continue;
        // What waits goes on in another process.
        sum.settle();
        GradientSum other(communicator, 8, {{kCount}, {5}, {kCount}}, true, kWaiting);
        for (int waiting = 0; waiting < sum.waits(); ++waiting) {
          const std::vector<std::span<float>> to = other.restore();
          for (std::size_t i = 0; i < to.size(); ++i) std::ranges::copy(sum.sum_of_waiting(waiting, i), to[i].begin());
        }
        other.wait();
        if (same_bits(other.sum(2), expected[static_cast<std::size_t>(ended)])) ++right;
      }
      while (sum.waits() > 0) end_first();
    });
    CHECK_EQ(right, ranks * (kSteps + 1));
  }
}

TEST_CASE("an exchange that fails is told where the sum is waited for, also while others wait") {
  CHECK_THROWS_WITH(on_ranks(2,
                             [](Communicator& communicator) {
                               GradientSum sum(communicator, 2, {{100}}, true, 2);
                               const int steps = communicator.rank() == 1 ? 1 : 3;
                               for (int step = 0; step < steps; ++step) {
                                 sum.add(0, std::vector<float>(100));
                                 sum.end_term();
                               }
                               sum.wait();
                               sum.end_step();
                               if (communicator.rank() == 0) sum.wait();
                             }),
                    "rank 1 is gone");
}

TEST_CASE("an exchange that fails is told where the sum is waited for") {
  CHECK_THROWS_WITH(on_ranks(2,
                             [](Communicator& communicator) {
                               if (communicator.rank() == 1) return;
                               GradientSum sum(communicator, 2, {{100}});
                               sum.add(0, std::vector<float>(100));
                               sum.end_term();
                               sum.wait();
                             }),
                    "rank 1 is gone");
}

TEST_CASE("bf16 on the wire: rounded at every node of the tree, so with the same bits on any number of ranks") {
  CHECK_EQ(from_wire(to_wire(1.0f + 1.0f / 256)), 1.0f);  // a tie goes to the even one
  CHECK_EQ(from_wire(to_wire(1.0f + 3.0f / 256)), 1.0f + 4.0f / 256);
  CHECK_EQ(from_wire(to_wire(-0.0f)), 0.0f);
  CHECK(std::isinf(from_wire(to_wire(3.4e38f))));
  CHECK(std::isnan(from_wire(to_wire(std::nanf("")))));
  const std::function<std::vector<float>(int, int, std::int64_t)> rounded = [&](int begin, int end,
                                                                                std::int64_t count) {
    const int middle = begin + (end - begin) / 2;
    std::vector<float> out = end - begin == 1 ? term_of(begin, count) : rounded(begin, middle, count);
    if (end - begin > 1) {
      const std::vector<float> rest = rounded(middle, end, count);
      for (std::size_t i = 0; i < out.size(); ++i) out[i] += rest[i];
    }
    for (float& x : out) x = from_wire(to_wire(x));
    return out;
  };
  for (const int ranks : {1, 2, 3, 4, 5, 8}) {
    for (const int terms : {1, 3, 4, 6, 13, 16}) {
      if (terms < ranks) continue;
      for (const std::int64_t count : {17, 9000}) {
        CAPTURE(ranks);
        CAPTURE(terms);
        const std::vector<float> expected = rounded(0, terms, count);
        std::atomic<int> right = 0;
        std::atomic<std::int64_t> sent = 0;
        on_ranks(ranks, [&](Communicator& communicator) {
          GradientSum sum(communicator, terms, {{count, Wire::kBF16}, {3}});
          for (int step = 0; step < 2; ++step) {
            for (int term = sum.terms().begin; term < sum.terms().end; ++term) {
              sum.add(0, term_of(term, count));
              sum.add(1, term_of(term, 3));
              sum.end_term();
            }
            sum.wait();
            if (same_bits(sum.sum(0), expected) && same_bits(sum.sum(1), sum_of(0, terms, 3))) ++right;
            sum.end_step();
          }
          sent += sum.cost().bytes_sent;
        });
        CHECK_EQ(right, 2 * ranks);
        if (ranks == 2) CHECK_EQ(sent, 2 * 2 * (2 * count + 4 * 3));
      }
    }
  }
}

TEST_CASE("pieces of owned arrays cover them, end where they may, and are about equal") {
  std::vector<SummedArray> arrays{{5}};
  for (int i = 0; i < 40; ++i) {
    SummedArray& array = arrays.emplace_back(SummedArray{1 + 3000 * (i % 7), Wire::kF32, true});
    for (std::int64_t cut = 640; cut < array.count; cut += 640) array.cuts.push_back(cut);
  }
  for (const int ranks : {1, 2, 3, 8, 50}) {
    CAPTURE(ranks);
    const BucketLayout layout = layout_of(arrays, ranks);
    CHECK_FALSE(layout.buckets[layout.places[0].bucket].owned);
    std::vector<std::int64_t> of_rank(static_cast<std::size_t>(ranks), 0);
    std::int64_t all = 0;
    for (std::size_t i = 1; i < arrays.size(); ++i) {
      REQUIRE(layout.buckets[layout.places[i].bucket].owned);
      std::int64_t at = 0;
      std::vector<int> rank_of(static_cast<std::size_t>(ranks));
      for (int rank = 0; rank < ranks; ++rank) rank_of[static_cast<std::size_t>(part_of(rank, ranks))] = rank;
      for (const int rank : rank_of) {
        const ArrayPiece piece = piece_of(layout, i, rank);
        if (piece.size() == 0) continue;
        REQUIRE_EQ(piece.begin, at);
        at = piece.end;
        REQUIRE((at % 640 == 0 || at == arrays[i].count));
        of_rank[static_cast<std::size_t>(rank)] += piece.size();
      }
      REQUIRE_EQ(at, arrays[i].count);
      all += at;
    }
    const auto buckets = static_cast<std::int64_t>(layout.buckets.size());
    for (const std::int64_t own : of_rank) CHECK(std::abs(own - all / ranks) <= 640 * buckets);
  }
}

TEST_CASE("a rank gets the sum of what it owns, and all get what it writes there, in f32") {
  for (const Wire wire : {Wire::kF32, Wire::kBF16}) {
    for (const int ranks : {1, 2, 3, 4, 8}) {
      CAPTURE(ranks);
      constexpr std::int64_t kCount = 9000;
      constexpr int kTerms = 8;
      std::vector<SummedArray> arrays{{7}};
      for (int i = 0; i < 3; ++i) arrays.push_back({kCount, wire, true, {3000, 5000}});
      TreeSum expected(kCount, 0, 1, kTerms, wire);
      for (int term = 0; term < kTerms; ++term) expected.put(0, term_of(term, kCount)), expected.add();
      std::atomic<int> right = 0;
      on_ranks(ranks, [&](Communicator& communicator) {
        GradientSum sum(communicator, kTerms, arrays);
        for (int step = 0; step < 2; ++step) {
          for (int term = sum.terms().begin; term < sum.terms().end; ++term) {
            sum.add(0, term_of(term, 7));
            for (std::size_t i = 1; i < arrays.size(); ++i) sum.add(i, term_of(term, kCount));
            sum.end_term();
          }
          sum.wait();
          bool good = same_bits(sum.own(0), sum_of(0, kTerms, 7));
          for (std::size_t i = 1; i < arrays.size(); ++i) {
            const ArrayPiece piece = piece_of(sum.layout(), i, communicator.rank());
            const std::vector<float> own(expected.result() + piece.begin, expected.result() + piece.end);
            good = good && same_bits(sum.own(i), own);
            for (std::int64_t at = piece.begin; at < piece.end; ++at)
              sum.own(i)[static_cast<std::size_t>(at - piece.begin)] = 0.1f + static_cast<float>(at);
          }
          for (std::size_t bucket = 0; ranks > 1 && bucket < sum.layout().buckets.size(); ++bucket)
            if (sum.layout().buckets[bucket].owned) sum.gather(bucket);
          sum.finish_gathers();
          for (std::size_t i = 1; i < arrays.size(); ++i)
            for (std::int64_t at = 0; at < kCount; ++at)
              good = good && sum.sum(i)[static_cast<std::size_t>(at)] == 0.1f + static_cast<float>(at);
          if (good) ++right;
          sum.end_step();
        }
      });
      CHECK_EQ(right, 2 * ranks);
    }
  }
}
