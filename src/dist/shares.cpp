// A search for the least time within which the terms can be shared, and for each time a walk over the ranks: to which
// term can the first r of them get?
#include "dist/shares.h"

#include <algorithm>
#include <limits>
#include <optional>

namespace mlx::dist {
namespace {

constexpr std::size_t kNodes = 2;

class Search {
 public:
  Search(const std::vector<double>& seconds, int terms)
      : seconds_(seconds),
        terms_(terms),
        ranks_(static_cast<int>(seconds.size())),
        most_(most_of_shares(ranks_, terms)) {
    for (const Terms& share : even_shares(ranks_, terms)) nodes_ = std::max(nodes_, nodes_of(share, terms).size());
  }

  Shares run() const {
    std::vector<double> times;
    for (const double each : seconds_)
      for (int count = 1; count <= most_; ++count) times.push_back(each * count);
    std::ranges::sort(times);
    const auto found = std::ranges::partition_point(times, [&](double within) { return !shares_within(within); });
    return found == times.end() ? even_shares(ranks_, terms_) : *shares_within(*found);
  }

 private:
  struct Way {  // to a term
    int from = -1;
    std::size_t nodes = std::numeric_limits<std::size_t>::max();  // of all shares up to there
  };

  std::optional<Shares> shares_within(double time) const {
    const auto places = static_cast<std::size_t>(terms_) + 1;
    std::vector<std::vector<Way>> ways(static_cast<std::size_t>(ranks_) + 1, std::vector<Way>(places));
    ways[0][0].nodes = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      const int last = terms_ - (ranks_ - 1 - rank);  // each of the others needs one
      for (int begin = rank; begin < last; ++begin)
        if (const Way& way = ways[at][static_cast<std::size_t>(begin)];
            way.nodes < std::numeric_limits<std::size_t>::max())
          add_ways(begin, std::min(last, begin + most_), time, seconds_[at], way.nodes, ways[at + 1]);
    }
    Shares shares(static_cast<std::size_t>(ranks_));
    int end = terms_;
    for (int rank = ranks_; rank > 0; --rank) {
      const int begin = ways[static_cast<std::size_t>(rank)][static_cast<std::size_t>(end)].from;
      if (begin < 0) return std::nullopt;
      shares[static_cast<std::size_t>(rank) - 1] = {begin, end};
      end = begin;
    }
    return shares;
  }

  void add_ways(int begin, int last, double time, double seconds, std::size_t before, std::vector<Way>& ways) const {
    for (int end = begin + 1; end <= last && seconds * (end - begin) <= time; ++end) {
      const std::size_t nodes = nodes_of({begin, end}, terms_).size();
      Way& way = ways[static_cast<std::size_t>(end)];
      if (nodes <= nodes_ && before + nodes < way.nodes) way = {begin, before + nodes};
    }
  }

  const std::vector<double>& seconds_;
  int terms_, ranks_, most_;
  std::size_t nodes_ = kNodes;
};

}  // namespace

Shares even_shares(int ranks, int terms) {
  Shares out;
  for (int rank = 0; rank < ranks; ++rank) out.push_back(terms_of(rank, ranks, terms));
  return out;
}

int most_of_shares(int ranks, int terms) {
  return std::min(terms - ranks + 1, 2 * ((terms + ranks - 1) / ranks));
}

Shares fastest_shares(const std::vector<double>& seconds, int terms) {
  return Search(seconds, terms).run();
}

double seconds_of(const Shares& shares, const std::vector<double>& seconds) {
  double most = 0;
  for (std::size_t rank = 0; rank < shares.size(); ++rank) most = std::max(most, seconds[rank] * shares[rank].size());
  return most;
}

}  // namespace mlx::dist
