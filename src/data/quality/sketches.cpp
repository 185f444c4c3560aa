// Moments, quantiles, distinct counts and frequent values.

#include "data/quality/sketches.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>

namespace mlx::data {

void Moments::add(double x) {
  low = count == 0 ? x : std::min(low, x);
  high = count == 0 ? x : std::max(high, x);
  const double before = x - mean;
  mean += before / static_cast<double>(++count);
  squares += before * (x - mean);
}

double Moments::std() const {
  return count == 0 ? 0 : std::sqrt(squares / static_cast<double>(count));
}

void Quantiles::add(double x) {
  if (levels_.empty()) levels_.emplace_back(), odd_.push_back(false);
  levels_[0].push_back(x);
  if (levels_[0].size() > capacity_) compact(0);
}

// Half of the level's values, every second in order, rise to the next.
void Quantiles::compact(std::size_t level) {
  if (level + 1 == levels_.size()) levels_.emplace_back(), odd_.push_back(false);
  std::vector<double>& from = levels_[level];
  std::ranges::sort(from);
  const bool leftover = from.size() % 2 != 0;
  const double last = from.back();
  const std::size_t pairs = from.size() / 2;
  for (std::size_t i = 0; i < pairs; ++i) levels_[level + 1].push_back(from[2 * i + (odd_[level] ? 1 : 0)]);
  odd_[level] = !odd_[level];
  from.clear();
  if (leftover) from.push_back(last);
  if (levels_[level + 1].size() > capacity_) compact(level + 1);
}

void Quantiles::merge(const Quantiles& other) {
  for (std::size_t level = 0; level < other.levels_.size(); ++level) {
    while (levels_.size() <= level) levels_.emplace_back(), odd_.push_back(false);
    levels_[level].insert(levels_[level].end(), other.levels_[level].begin(), other.levels_[level].end());
    if (levels_[level].size() > capacity_) compact(level);
  }
}

std::vector<std::pair<double, std::uint64_t>> Quantiles::weighted() const {
  std::vector<std::pair<double, std::uint64_t>> out;
  for (std::size_t level = 0; level < levels_.size(); ++level)
    for (const double x : levels_[level]) out.emplace_back(x, std::uint64_t{1} << level);
  std::ranges::sort(out);
  return out;
}

std::vector<double> quantiles_of(const std::vector<std::pair<double, std::uint64_t>>& weighted,
                                 const std::vector<double>& shares) {
  std::vector<double> out;
  if (weighted.empty()) return out;
  std::uint64_t total = 0;
  for (const auto& [value, weight] : weighted) total += weight;
  std::size_t at = 0;
  std::uint64_t below = 0;  // the weight before item `at`
  for (const double share : shares) {
    const double place = share * static_cast<double>(total - 1);
    const auto whole = static_cast<std::uint64_t>(place);
    while (at + 1 < weighted.size() && below + weighted[at].second <= whole) below += weighted[at++].second;
    double value = weighted[at].first;
    const double part = place - static_cast<double>(whole);
    const bool to_next = whole + 1 >= below + weighted[at].second && at + 1 < weighted.size();
    if (to_next && part > 0) value += part * (weighted[at + 1].first - value);
    out.push_back(value);
  }
  return out;
}

void Distinct::note(std::uint64_t hash) {
  const auto index = static_cast<std::size_t>(hash >> 52);
  const auto rank = static_cast<std::uint8_t>(std::min(std::countl_zero(hash << 12), 52) + 1);
  registers_[index] = std::max(registers_[index], rank);
}

void Distinct::add(std::uint64_t hash) {
  if (!exact()) return note(hash);
  seen_.insert(hash);
  if (seen_.size() <= kExact) return;
  registers_.assign(4096, 0);
  for (const std::uint64_t each : seen_) note(each);
  seen_ = {};
}

std::uint64_t Distinct::count() const {
  if (exact()) return seen_.size();
  constexpr double kRegisters = 4096, kAlpha = 0.7213 / (1 + 1.079 / kRegisters);
  double sum = 0, empty = 0;
  for (const std::uint8_t rank : registers_) sum += std::ldexp(1.0, -rank), empty += rank == 0 ? 1 : 0;
  double estimate = kAlpha * kRegisters * kRegisters / sum;
  if (estimate <= 2.5 * kRegisters && empty > 0) estimate = kRegisters * std::log(kRegisters / empty);
  return static_cast<std::uint64_t>(std::llround(estimate));
}

void TopValues::add(std::string_view value) {
  if (value.size() > kLongest) {
    std::size_t end = kLongest;
    while (end > 0 && (static_cast<unsigned char>(value[end]) & 0xC0) == 0x80) --end;  // not inside a character
    value = value.substr(0, end);
  }
  if (const auto found = counts_.find(value); found != counts_.end()) {
    ++found->second;
    return;
  }
  if (counts_.size() < kMost) {
    counts_.emplace(value, 1);
    return;
  }
  exact_ = false;
  for (auto item = counts_.begin(); item != counts_.end();)
    item = --item->second == 0 ? counts_.erase(item) : std::next(item);
}

std::vector<std::pair<std::string, std::uint64_t>> TopValues::sorted() const {
  std::vector<std::pair<std::string, std::uint64_t>> out(counts_.begin(), counts_.end());
  std::ranges::sort(
      out, [](const auto& a, const auto& b) { return a.second != b.second ? a.second > b.second : a.first < b.first; });
  return out;
}

void Extremes::add(double x, std::uint64_t place) {
  const auto keep = [&](auto& heap, auto less) {
    const std::pair<double, std::uint64_t> item{x, place};
    if (heap.size() == kEach && !less(item, heap.front())) return;
    if (heap.size() == kEach) {
      std::pop_heap(heap.begin(), heap.end(), less);
      heap.pop_back();
    }
    heap.push_back(item);
    std::push_heap(heap.begin(), heap.end(), less);
  };
  keep(low_, [](const auto& a, const auto& b) { return a.first < b.first; });
  keep(high_, [](const auto& a, const auto& b) { return a.first > b.first; });
}

std::vector<std::pair<double, std::uint64_t>> Extremes::all() const {
  std::vector<std::pair<double, std::uint64_t>> out = low_;
  out.insert(out.end(), high_.begin(), high_.end());
  std::ranges::sort(out, {}, [](const auto& item) { return item.second; });
  const auto same_place = [](const auto& a, const auto& b) { return a.second == b.second; };
  out.erase(std::unique(out.begin(), out.end(), same_place), out.end());
  return out;
}

}  // namespace mlx::data
