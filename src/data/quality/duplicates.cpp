// Equal items by sorted hashes; images that look alike by an index over parts of their dHash.

#include "data/quality/duplicates.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <unordered_map>

namespace mlx::data {
namespace {

constexpr std::size_t kExamples = 20;
constexpr std::size_t kMostCompared = 64;  // images of one part: bounds the work where all look the same

std::uint64_t scaled_up(std::uint64_t count, std::uint64_t limit) {
  if (limit == ~std::uint64_t{0}) return count;
  return static_cast<std::uint64_t>(
      std::llround(static_cast<double>(count) * std::ldexp(1.0, 64) / static_cast<double>(limit)));
}

// Gradients that differ in at most three bits are equal in one of four parts.
class LookIndex {
 public:
  explicit LookIndex(const std::vector<Look>& looks) : looks_(looks) {}
  void add(std::size_t image) {
    for (unsigned part = 0; part < 4; ++part) {
      std::vector<std::uint32_t>& list = parts_[key(looks_[image].gradient, part)];
      if (list.size() < kMostCompared) list.push_back(static_cast<std::uint32_t>(image));
    }
  }
  // The first image that looks alike and for which `wanted` holds.
  template <typename Wanted>
  std::optional<std::size_t> find(const Look& look, Wanted wanted) const {
    std::optional<std::size_t> first;
    for (unsigned part = 0; part < 4; ++part) {
      const auto found = parts_.find(key(look.gradient, part));
      if (found == parts_.end()) continue;
      for (const std::size_t image : found->second)
        if ((!first || image < *first) && wanted(image) && alike(looks_[image], look)) first = image;
    }
    return first;
  }

 private:
  static std::uint32_t key(std::uint64_t gradient, unsigned part) {
    return part << 16 | static_cast<std::uint32_t>(gradient >> (16 * part) & 0xFFFF);
  }
  const std::vector<Look>& looks_;
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> parts_;
};

double share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

bool alike(const Look& a, const Look& b) {
  if (std::popcount(a.gradient ^ b.gradient) > kAlikeBits) return false;
  int off = 0;
  for (std::size_t i = 0; i < a.grey.size(); ++i) off += std::abs(int{a.grey[i]} - int{b.grey[i]});
  return off <= kAlikeGrey * static_cast<int>(a.grey.size());
}

void Prints::add(const Observation& item) {
  ++items;
  if (item.hash != 0) hashes.add(item.hash, item.place);
  if (!item.look || looks.size() == kMostLooks) return;
  looks.push_back(*item.look);
  look_hashes.push_back(item.hash);
}

Duplicates equal_items(Prints& prints) {
  Duplicates out;
  for (const HashSample::Item& item : prints.hashes.sorted()) {
    out.items += item.count - 1;
    if (item.count > 1) out.examples.emplace_back(item.place, item.again);
  }
  std::ranges::sort(out.examples);
  out.examples.resize(std::min(out.examples.size(), kExamples));
  out.items = scaled_up(out.items, prints.hashes.limit());
  return out;
}

Duplicates alike_images(const Prints& prints) {
  Duplicates out;
  LookIndex index(prints.looks);
  for (std::size_t i = 0; i < prints.looks.size(); ++i) {
    const auto differs = [&](std::size_t other) { return prints.look_hashes[other] != prints.look_hashes[i]; };
    if (const auto first = index.find(prints.looks[i], differs)) {
      ++out.items;
      if (out.examples.size() < kExamples) out.examples.emplace_back(*first, i);
    }
    index.add(i);
  }
  return out;
}

Leak leak_between(const std::string& from, Prints& a, const std::string& to, Prints& b) {
  Leak leak{from, to};
  const std::uint64_t limit = std::min(a.hashes.limit(), b.hashes.limit());
  const auto &left = a.hashes.sorted(), &right = b.hashes.sorted();
  for (auto i = left.begin(), j = right.begin();
       i != left.end() && j != right.end() && i->hash <= limit && j->hash <= limit;) {
    if (i->hash < j->hash) {
      ++i;
    } else if (j->hash < i->hash) {
      ++j;
    } else {
      leak.equal += j->count;
      leak.examples.emplace_back(i->place, j->place);
      ++i, ++j;
    }
  }
  std::ranges::sort(leak.examples);
  leak.examples.resize(std::min(leak.examples.size(), kExamples));
  leak.equal = scaled_up(leak.equal, limit);
  LookIndex index(a.looks);
  for (std::size_t i = 0; i < a.looks.size(); ++i) index.add(i);
  for (std::size_t i = 0; i < b.looks.size(); ++i) {
    const auto differs = [&](std::size_t other) { return a.look_hashes[other] != b.look_hashes[i]; };
    const auto found = index.find(b.looks[i], differs);
    if (!found) continue;
    ++leak.alike;
    if (leak.alike_examples.size() < kExamples) leak.alike_examples.emplace_back(*found, i);
  }
  leak.equal_share = share(leak.equal, b.items), leak.alike_share = share(leak.alike, b.items);
  return leak;
}

}  // namespace mlx::data
