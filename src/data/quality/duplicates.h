// Items that occur twice: equal ones by hash; almost equal ones by how images look (look.h) and the near
// hashes of rows and lines (near.h). Within a split, and across splits (leaks). Used by measure.cpp.
#pragma once

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "data/quality/scan.h"
#include "data/quality/sketches.h"
#include "data/quality/statistics.h"

namespace mlx::data {

// A row or line by one of its near hashes. Each content counts once.
struct NearItem {
  static constexpr std::size_t kMost = std::size_t{1} << 19;
  std::uint64_t hash = 0, place = 0;     // the near hash; place: of the first with this content
  std::uint32_t content = 0, count = 1;  // content: a part of the row's hash, which tells rows of one near hash apart

  auto order() const { return std::tie(hash, content, place); }
  bool is_like(const NearItem& other) const { return hash == other.hash && content == other.content; }
  void join(const NearItem& later) { count += later.count; }
};
using NearSample = Sample<NearItem>;

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
