// Summaries of a stream of values in bounded memory: moments, quantiles, distinct count, frequent values, extremes.
// Each depends on the values and their order alone, never on chance. Used by measure.cpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "data/content_hash.h"

namespace mlx::data {

// Whether statistics count this number: larger ones, whose squares and distances overflow, are left out. A training
// refuses them.
inline bool is_measured(double x) {
  return std::abs(x) <= std::numeric_limits<float>::max();
}

// Mean and variance by Welford's method (Knuth, TAOCP 2, 4.2.2).
struct Moments {
  std::uint64_t count = 0;
  double mean = 0, squares = 0;  // squares: the sum of (x - mean)²
  double low = 0, high = 0;

  void add(double x);
  double std() const;  // of the population; 0 for none
};

// Quantiles by a KLL sketch (Karnin, Lang, Liberty, 2016) whose compactions keep odd and even places in turn. Exact
// while no more than `capacity` values were added. Later the rank error is below 1 % for capacity 1024 and 2^32 values.
class Quantiles {
 public:
  explicit Quantiles(std::size_t capacity = 4096) : capacity_(capacity) {}
  void add(double x);
  void merge(const Quantiles& other);
  bool exact() const { return levels_.size() <= 1; }
  std::vector<std::pair<double, std::uint64_t>> weighted() const;  // ascending values, and how many each stands for

 private:
  void compact(std::size_t level);
  std::size_t capacity_;
  std::vector<std::vector<double>> levels_;  // a value of level i stands for 2^i values
  std::vector<bool> odd_;
};
// The values at these shares of the total weight (0 to 1, ascending), interpolated as numpy.quantile does when each
// weight is 1. Empty without values.
std::vector<double> quantiles_of(const std::vector<std::pair<double, std::uint64_t>>& weighted,
                                 const std::vector<double>& shares);

// The number of different hashes: exact up to kExact, then HyperLogLog (Flajolet et al., 2007) with 4096 registers,
// whose standard error is 1.6 %.
class Distinct {
 public:
  static constexpr std::size_t kExact = 4096;
  void add(std::uint64_t hash);
  bool exact() const { return registers_.empty(); }
  std::uint64_t count() const;

 private:
  void note(std::uint64_t hash);
  std::unordered_set<std::uint64_t> seen_;
  std::vector<std::uint8_t> registers_;
};

// Frequent values (Misra, Gries, 1982): exact up to kMost different values. Beyond, the counts are lower bounds, and
// every value that makes up more than 1/kMost of the stream is among them.
class TopValues {
 public:
  static constexpr std::size_t kMost = 1024, kLongest = 200;  // values are cut to kLongest bytes
  void add(std::string_view value);
  bool exact() const { return exact_; }
  std::vector<std::pair<std::string, std::uint64_t>> sorted() const;  // most frequent first, equal ones by bytes

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return hash_of(text); }
  };
  std::unordered_map<std::string, std::uint64_t, Hash, std::equal_to<>> counts_;
  bool exact_ = true;
};

// The lowest and highest values with their places.
class Extremes {
 public:
  static constexpr std::size_t kEach = 20;
  void add(double x, std::uint64_t place);
  std::vector<std::pair<double, std::uint64_t>> all() const;  // by place, each once

 private:
  std::vector<std::pair<double, std::uint64_t>> low_, high_;  // heaps: the least extreme first
};

// Items with hashes, joined where they are equal, in bounded memory: for finding equal items in one split or in
// several. If there are more than kMost different ones, only hashes up to a limit are kept. The limit falls as more
// come, and every split keeps the same hashes below the lower limit, so shares remain comparable.
//
// An Item has a `hash`, order(), by which equal ones stand together, is_like() for these, and join(), which adds a
// later one to the first.
template <typename Item>
class Sample {
 public:
  explicit Sample(std::size_t most = Item::kMost) : most_(most) {}
  void add(const Item& item) {
    if (item.hash > limit_) return;
    items_.push_back(item);
    if (items_.size() < std::min(2 * most_, std::max(kFirstJoin, 2 * joined_))) return;
    const bool full = items_.size() >= 2 * most_;
    join_equal();
    while (full && items_.size() > most_) {
      limit_ /= 2;
      std::erase_if(items_, [&](const Item& each) { return each.hash > limit_; });
    }
    joined_ = items_.size();
  }
  std::uint64_t limit() const { return limit_; }
  const std::vector<Item>& sorted() {  // by order(), each once
    join_equal();
    return items_;
  }

 private:
  static constexpr std::size_t kFirstJoin = std::size_t{1} << 15;  // where few items differ, no more are ever held

  void join_equal() {
    if (joined_ == items_.size()) return;
    const auto order = [](const Item& item) { return item.order(); };
    const auto fresh = items_.begin() + static_cast<std::ptrdiff_t>(joined_);
    std::ranges::sort(fresh, items_.end(), std::less<>(), order);
    std::ranges::inplace_merge(items_, fresh, std::less<>(), order);
    std::size_t kept = 0;
    for (const Item& item : items_) {
      if (kept > 0 && items_[kept - 1].is_like(item))
        items_[kept - 1].join(item);
      else
        items_[kept++] = item;
    }
    items_.resize(kept);
    joined_ = kept;
  }

  std::size_t most_;
  std::uint64_t limit_ = ~std::uint64_t{0};
  std::size_t joined_ = 0;  // the first items are sorted and differ
  std::vector<Item> items_;
};

struct HashedItem {
  static constexpr std::size_t kMost = std::size_t{1} << 20;
  std::uint64_t hash = 0, place = 0;   // place: of the first
  std::uint64_t again = 0, count = 1;  // again: the place of the second; count: of all

  auto order() const { return std::tie(hash, place); }
  bool is_like(const HashedItem& other) const { return hash == other.hash; }
  void join(const HashedItem& later) {
    if (count == 1) again = later.place;
    count += later.count;
  }
};
using HashSample = Sample<HashedItem>;

}  // namespace mlx::data
