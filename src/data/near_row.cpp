// Rounding works on the bits of doubles, whose exponent is that of the grid.

#include "data/near_row.h"

#include <algorithm>
#include <bit>

#include "data/content_hash.h"

namespace mlx::data {
namespace {

constexpr int kMantissa = 52;
constexpr int kFinest = 18, kCoarsest = 8;  // bits of the mantissa that count
constexpr int kFewest = 2;                  // numbers that are not whole

int exponent_of(std::uint64_t bits) {
  return static_cast<int>(bits >> kMantissa & 0x7FF) - 1023;
}

bool is_whole(std::uint64_t bits) {
  const int exponent = exponent_of(bits);
  if (exponent < 0) return bits << 1 == 0;  // 0 and -0
  return exponent >= kMantissa || bits << (12 + exponent) == 0;
}

struct Rounded {
  std::uint64_t nearest = 0, down = 0;
};

Rounded rounded(double value, int kept) {
  const auto bits = std::bit_cast<std::uint64_t>(value == 0 ? 0.0 : value);
  const int dropped = kMantissa - std::max(kept, exponent_of(bits));  // never before the point
  if (dropped <= 0) return {bits, bits};
  const std::uint64_t half = std::uint64_t{1} << (dropped - 1);
  return {(bits + half) >> dropped << dropped, bits >> dropped << dropped};
}

int kept_bits(std::size_t numbers) {
  return std::max(kCoarsest, kFinest - static_cast<int>(std::bit_width(numbers)) + 1);
}

std::uint64_t cell(std::uint64_t column, std::uint64_t value) {
  return mixed(column ^ mixed(value));
}

bool is_blank(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

}  // namespace

std::uint64_t NearRow::folded_hash(std::string_view text) {
  folded_.resize(text.size());
  std::size_t size = 0;
  bool gap = false;
  for (const char c : text) {
    if (is_blank(c)) {
      gap = size > 0;
      continue;
    }
    if (gap) folded_[size++] = ' ';
    gap = false;
    folded_[size++] = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  }
  return hash_of({folded_.data(), size});
}

void NearRow::folded(std::uint64_t column, std::uint64_t hash) {
  texts_ += mixed(~column ^ hash);  // never what a number of the column says
}

NearHashes NearRow::finish() {
  std::uint64_t nearest = texts_, down = texts_, exact = texts_;
  int broken = 0;
  const int kept = kept_bits(numbers_.size());
  for (const Number& each : numbers_) {
    const Rounded to = rounded(each.value, kept);
    if (is_whole(to.nearest) && to.down == to.nearest) {
      const std::uint64_t whole = cell(each.column, to.nearest);
      nearest += whole, down += whole, exact += whole;
      continue;
    }
    ++broken;
    nearest += cell(each.column, to.nearest), down += cell(each.column, to.down);
    exact += cell(each.column, std::bit_cast<std::uint64_t>(each.value));
  }
  numbers_.clear();
  texts_ = 0;
  if (broken < kFewest) return {mixed(exact) | 1, 0};
  return {mixed(nearest) | 1, nearest == down ? 0 : mixed(~down) | 1};
}

}  // namespace mlx::data
