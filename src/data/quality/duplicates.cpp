// Equal items and rows that are almost the same by sorted hashes, images that look alike by an index of looks.

#include "data/quality/duplicates.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <tuple>
#include <unordered_set>

namespace mlx::data {
namespace {

constexpr std::size_t kExamples = 20;
constexpr std::uint64_t kAll = ~std::uint64_t{0};  // the limit of a sample that holds everything
using Places = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

std::uint64_t scaled_up(std::uint64_t count, std::uint64_t limit) {
  if (limit == kAll) return count;
  return static_cast<std::uint64_t>(
      std::llround(static_cast<double>(count) * std::ldexp(1.0, 64) / static_cast<double>(limit)));
}

double share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

// A content that is almost the same as one before: the place of that one, its own, and how often it occurs.
struct Match {
  std::uint64_t first = 0, again = 0, count = 1;
};
using NearItems = std::vector<NearItem>;

NearItems::const_iterator end_of_group(NearItems::const_iterator from, NearItems::const_iterator end) {
  return std::find_if(from, end, [&](const NearItem& item) { return item.hash != from->hash; });
}

std::uint64_t first_place(NearItems::const_iterator begin, NearItems::const_iterator end) {
  return std::min_element(begin, end, [](const auto& x, const auto& y) { return x.place < y.place; })->place;
}

std::vector<Match> matches_within(const NearItems& items) {
  std::vector<Match> out;
  for (auto begin = items.begin(); begin != items.end();) {
    const auto end = end_of_group(begin, items.end());
    const std::uint64_t first = first_place(begin, end);
    for (; begin != end; ++begin)
      if (begin->place != first) out.push_back({first, begin->place});
  }
  return out;
}

// Both groups are in the order of their contents.
void match_groups(NearItems::const_iterator a, NearItems::const_iterator a_end, NearItems::const_iterator b,
                  NearItems::const_iterator b_end, std::vector<Match>& out) {
  const std::uint64_t first = first_place(a, a_end);
  for (; b != b_end; ++b) {
    while (a != a_end && a->content < b->content) ++a;
    const bool equal = a != a_end && a->content == b->content;
    if (!equal) out.push_back({first, b->place, b->count});
  }
}

std::vector<Match> matches_between(const NearItems& a, const NearItems& b, std::uint64_t limit) {
  std::vector<Match> out;
  for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end() && i->hash <= limit && j->hash <= limit;) {
    if (i->hash < j->hash) {
      ++i;
    } else if (j->hash < i->hash) {
      ++j;
    } else {
      const auto i_end = end_of_group(i, a.end()), j_end = end_of_group(j, b.end());
      match_groups(i, i_end, j, j_end, out);
      i = i_end, j = j_end;
    }
  }
  return out;
}

// Adds what either hash has found. Of samples, which hold other rows for each hash, the hash counts that found more.
void add_matches(std::vector<Match> by_first, std::uint64_t first_limit, const std::vector<Match>& by_second,
                 std::uint64_t second_limit, std::uint64_t& items, Places& examples) {
  const auto total = [](const std::vector<Match>& matches) {
    return std::accumulate(matches.begin(), matches.end(), std::uint64_t{0},
                           [](std::uint64_t sum, const Match& each) { return sum + each.count; });
  };
  const std::uint64_t most =
      std::max(scaled_up(total(by_first), first_limit), scaled_up(total(by_second), second_limit));
  by_first.insert(by_first.end(), by_second.begin(), by_second.end());
  const auto key = [](const Match& each) { return std::tie(each.again, each.first); };
  std::ranges::sort(by_first, std::less<>(), key);
  const auto same = [](const Match& x, const Match& y) { return x.again == y.again; };
  by_first.erase(std::unique(by_first.begin(), by_first.end(), same), by_first.end());
  const bool all = first_limit == kAll && second_limit == kAll;
  items += all ? total(by_first) : most;
  for (std::size_t i = 0; i < by_first.size() && examples.size() < kExamples; ++i)
    examples.emplace_back(by_first[i].first, by_first[i].again);
}

// Those of `from`, which are usually more, pass by.
void add_alike_images(const Prints& from, const Prints& to, Leak& leak) {
  constexpr std::size_t kNone = ~std::size_t{0};
  LookIndex index(to.looks);
  for (std::size_t i = 0; i < to.looks.size(); ++i) index.add(i);
  std::vector<std::size_t> first(to.looks.size(), kNone);
  for (std::size_t i = 0; i < from.looks.size(); ++i)
    index.each(
        from.looks[i],
        [&](std::size_t image) { return first[image] == kNone && to.look_hashes[image] != from.look_hashes[i]; },
        [&](std::size_t image) { first[image] = i; });
  const std::unordered_set<std::uint64_t> equal(from.look_hashes.begin(), from.look_hashes.end());
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (first[i] == kNone || equal.contains(to.look_hashes[i])) continue;
    ++leak.alike;
    if (leak.alike_examples.size() < kExamples) leak.alike_examples.emplace_back(first[i], i);
  }
}

}  // namespace

void Prints::add(const Observation& item) {
  ++items;
  if (item.hash != 0) hashes.add({item.hash, item.place});
  const auto content = static_cast<std::uint32_t>(item.hash >> 32);
  if (item.near.first != 0) near_first.add({item.near.first, item.place, content});
  if (item.near.second != 0) near_second.add({item.near.second, item.place, content});
  if (!item.look || looks.size() == kMostLooks) return;
  looks.push_back(*item.look);
  look_hashes.push_back(item.hash);
}

Duplicates equal_items(Prints& prints) {
  Duplicates out;
  for (const HashedItem& item : prints.hashes.sorted()) {
    out.items += item.count - 1;
    if (item.count > 1) out.examples.emplace_back(item.place, item.again);
  }
  std::ranges::sort(out.examples);
  out.examples.resize(std::min(out.examples.size(), kExamples));
  out.items = scaled_up(out.items, prints.hashes.limit());
  return out;
}

Duplicates alike_items(Prints& prints) {
  Duplicates out;
  add_matches(matches_within(prints.near_first.sorted()), prints.near_first.limit(),
              matches_within(prints.near_second.sorted()), prints.near_second.limit(), out.items, out.examples);
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
  add_alike_images(a, b, leak);
  const std::uint64_t first_limit = std::min(a.near_first.limit(), b.near_first.limit());
  const std::uint64_t second_limit = std::min(a.near_second.limit(), b.near_second.limit());
  add_matches(matches_between(a.near_first.sorted(), b.near_first.sorted(), first_limit), first_limit,
              matches_between(a.near_second.sorted(), b.near_second.sorted(), second_limit), second_limit, leak.alike,
              leak.alike_examples);
  leak.equal_share = share(leak.equal, b.items), leak.alike_share = share(leak.alike, b.items);
  return leak;
}

}  // namespace mlx::data
