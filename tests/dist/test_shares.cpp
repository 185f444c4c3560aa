// Shares of ranks that are not equally fast: all is shared, nobody waits longer than needed, and sums keep their bits.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <span>

#include "dist/gradient_sum.h"
#include "ranks.h"

namespace mlx::dist {
namespace {

std::size_t most_nodes(const Shares& shares, int terms) {
  std::size_t most = 0;
  for (const Terms& share : shares) most = std::max(most, nodes_of(share, terms).size());
  return most;
}

// The best of all shares that keep the rules.
double best_time(const std::vector<double>& seconds, int terms) {
  const auto ranks = static_cast<int>(seconds.size());
  const std::size_t nodes = std::max<std::size_t>(2, most_nodes(even_shares(ranks, terms), terms));
  double best = std::numeric_limits<double>::infinity();
  Shares shares;
  const std::function<void(int)> extend = [&](int begin) {
    if (shares.size() == seconds.size()) {
      if (begin == terms && most_nodes(shares, terms) <= nodes) best = std::min(best, seconds_of(shares, seconds));
      return;
    }
    for (int end = begin + 1; end <= std::min(terms, begin + most_of_shares(ranks, terms)); ++end) {
      shares.push_back({begin, end});
      extend(end);
      shares.pop_back();
    }
  };
  extend(0);
  return best;
}

}  // namespace

TEST_CASE("shares by speed cover all terms, and no others are faster") {
  const std::vector<std::vector<double>> all{{1, 1},       {1, 3},    {5, 1},       {1, 1, 1},    {1, 2, 4},
                                             {1, 1, 1, 9}, {7, 1, 1}, {1e-9, 2, 3}, {1, 1, 2, 2}, {1}};
  for (const std::vector<double>& seconds : all) {
    for (int terms = static_cast<int>(seconds.size()); terms <= 16; ++terms) {
      CAPTURE(terms);
      const Shares shares = fastest_shares(seconds, terms);
      REQUIRE_EQ(shares.size(), seconds.size());
      int at = 0;
      for (const Terms& share : shares) {
        REQUIRE_EQ(share.begin, at);
        REQUIRE(share.size() >= 1);
        at = share.end;
      }
      REQUIRE_EQ(at, terms);
      CHECK_EQ(seconds_of(shares, seconds), best_time(seconds, terms));
    }
  }
  CHECK(fastest_shares({1, 1, 1, 1}, 16) == even_shares(4, 16));
  CHECK(fastest_shares({1, 3}, 16) == Shares{{0, 12}, {12, 16}});
  CHECK_EQ(fastest_shares(std::vector<double>(64, 0.5), 256), even_shares(64, 256));
}

TEST_CASE("sums have the same bits with other shares from step to step") {
  constexpr std::int64_t kCount = 9000;
  const auto value = [](int term, std::int64_t at) {
    return std::ldexp(static_cast<float>((term * 7919 + at * 104729) % 1000003) / 1e6f, term % 9 - 4);
  };
  for (const Wire wire : {Wire::kF32, Wire::kBF16}) {
    TreeSum expected(kCount, 0, 1, 12, wire);
    const auto term_at = [&](int term) {
      std::vector<float> out(static_cast<std::size_t>(kCount));
      for (std::int64_t at = 0; at < kCount; ++at) out[static_cast<std::size_t>(at)] = value(term, at);
      return out;
    };
    for (int term = 0; term < 12; ++term) expected.put(0, term_at(term)), expected.add();
    for (const std::vector<double>& seconds :
         std::vector<std::vector<double>>{{1, 4}, {9, 1}, {3, 1, 1}, {1, 2, 3, 4}}) {
      const auto ranks = static_cast<int>(seconds.size());
      CAPTURE(ranks);
      std::atomic<int> right = 0;
      on_ranks(ranks, [&](Communicator& communicator) {
        GradientSum sum(communicator, 12, {{kCount, wire}});
        for (int step = 0; step < 3; ++step) {
          for (int term = sum.terms().begin; term < sum.terms().end; ++term) sum.add(0, term_at(term)), sum.end_term();
          sum.wait();
          if (std::ranges::equal(sum.sum(0), std::span(expected.result(), kCount))) ++right;
          sum.end_step();
          sum.share(step == 0 ? fastest_shares(seconds, 12) : even_shares(ranks, 12));
        }
      });
      CHECK_EQ(right, 3 * ranks);
    }
  }
}

TEST_CASE("the memory of a share that is no node of the tree") {
  for (int terms = 2; terms <= 40; ++terms) {
    for (int begin = 0; begin < terms; ++begin) {
      for (int end = begin + 1; end <= terms; ++end) {
        if (nodes_of({begin, end}, terms).size() > 2) continue;
        std::size_t most = 1;
        for (int at = begin; at < end; ++at) {
          const std::vector<Terms> nodes = nodes_of({begin, at}, terms);
          const bool joins = !nodes.empty() && is_node({nodes.back().begin, at + 1}, terms);
          most = std::max(most, nodes.size() + (joins ? 0 : 1));
        }
        const auto own = static_cast<unsigned>(end - begin);
        CHECK(static_cast<int>(most) <= std::max(1, static_cast<int>(std::bit_width(own - 1))) + 1);
      }
    }
  }
}

}  // namespace mlx::dist
