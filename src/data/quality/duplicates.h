// Items that occur twice: equal ones by hash, images that look alike by dHash. Within a split, and across splits
// (leaks). Used by measure.cpp.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "data/quality/scan.h"
#include "data/quality/sketches.h"
#include "data/quality/statistics.h"

namespace mlx::data {

// Images look alike if at most kBits of their gradients' signs and on average kGrey of their grey values differ.
constexpr int kAlikeBits = 3, kAlikeGrey = 4;
bool alike(const Look& a, const Look& b);

// What a split's items are compared by.
struct Prints {
  static constexpr std::size_t kMostLooks = 1'000'000;  // 80 bytes each; images beyond are compared by hash alone
  HashSample hashes;
  std::vector<Look> looks;  // of image i
  std::vector<std::uint64_t> look_hashes;
  std::uint64_t items = 0;
  void add(const Observation& item);
};

// Equal and alike items, as places. Counts of equal ones are scaled up if hashes are a sample.
Duplicates equal_items(Prints& prints);
Duplicates alike_images(const Prints& prints);
Leak leak_between(const std::string& from, Prints& a, const std::string& to, Prints& b);

}  // namespace mlx::data
