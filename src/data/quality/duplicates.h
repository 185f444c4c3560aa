// Items that occur twice: equal ones by hash; almost equal ones by how images look (look.h) and the near
// hashes of rows and lines (near.h). Within a split, and across splits (leaks). Used by measure.cpp.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "data/quality/scan.h"
#include "data/quality/sketches.h"
#include "data/quality/statistics.h"

namespace mlx::data {

// Rows or lines by one of their near hashes. If there are more than kMost different contents, a sample as in
// HashSample.
class NearSample {
 public:
  struct Item {
    std::uint64_t near = 0, place = 0;     // place: of the first with this content
    std::uint32_t content = 0, count = 0;  // content: a part of the row's hash, which tells rows of one `near` apart
  };
  static constexpr std::size_t kMost = std::size_t{1} << 19;
  explicit NearSample(std::size_t most = kMost) : most_(most) {}
  void add(std::uint64_t near, std::uint64_t hash, std::uint64_t place);
  std::uint64_t limit() const { return limit_; }
  const std::vector<Item>& sorted();  // by near, then content; each content once

 private:
  void join_equal();
  std::size_t most_;
  std::uint64_t limit_ = ~std::uint64_t{0};
  std::size_t joined_ = 0;  // the first items are sorted and differ
  std::vector<Item> items_;
};

// What a split's items are compared by.
struct Prints {
  static constexpr std::size_t kMostLooks = 1'000'000;  // 80 bytes each; images beyond are compared by hash alone
  HashSample hashes;
  NearSample near_first, near_second;
  std::vector<Look> looks;  // of image i
  std::vector<std::uint64_t> look_hashes;
  std::uint64_t items = 0;
  void add(const Observation& item);
};

// Equal and almost equal items, as places. Counts are scaled up if hashes are a sample. Of rows and lines that are
// almost the same, each content counts once: copies of it are equal items.
Duplicates equal_items(Prints& prints);
Duplicates alike_items(Prints& prints);
// An item of `b` that `a` has too is not counted as alike another one.
Leak leak_between(const std::string& from, Prints& a, const std::string& to, Prints& b);

}  // namespace mlx::data
