// Rounding works on the bits of doubles, whose exponent is that of the grid. The permutations of MinHash are products
// with odd numbers.

#include "data/near.h"

#include <algorithm>
#include <array>
#include <bit>

#include "data/content_hash.h"

namespace mlx::data {
namespace {

constexpr int kMantissa = 52;
constexpr int kFinest = 18, kCoarsest = 8;  // bits of the mantissa that count
constexpr int kFewest = 3;                  // numbers that are not whole
constexpr std::size_t kCodeBytes = 2;       // shorter texts may be codes, whose case means something

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

constexpr std::size_t kMinima = 12;  // six of each hash
constexpr std::array<std::uint32_t, kMinima> kMultipliers = {0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F,
                                                             0x165667B1, 0xD3A2646D, 0xFD7046C5, 0xB55A4F09,
                                                             0x8DA6B343, 0xD8163841, 0xCB1AB31F, 0xA0F2EC75};

// The least value of each permutation.
class MinHash {
 public:
  MinHash() { least_.fill(~std::uint32_t{0}); }
  void add(std::uint64_t hash) {
    const auto value = static_cast<std::uint32_t>(hash >> 32);
    for (std::size_t i = 0; i < kMinima; ++i) least_[i] = std::min(least_[i], value * kMultipliers[i]);
  }
  NearHashes hashes() const {
    NearHashes out;
    for (std::size_t i = 0; i < kMinima / 2; ++i) {
      out.first = mixed(out.first ^ least_[i]) + i;
      out.second = mixed(out.second ^ least_[kMinima / 2 + i]) + i;
    }
    return {out.first | 1, out.second | 1};
  }

 private:
  std::array<std::uint32_t, kMinima> least_{};
};

// What a byte is in a word: itself without case; 0 between words.
constexpr std::array<std::uint8_t, 256> kWordBytes = [] {
  std::array<std::uint8_t, 256> out{};
  for (unsigned c = 0; c < 256; ++c) {
    const bool upper = c >= 'A' && c <= 'Z';
    const bool word = upper || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c > 127;
    out[c] = static_cast<std::uint8_t>(!word ? 0 : upper ? c + ('a' - 'A') : c);
  }
  return out;
}();

}  // namespace

NearHashes near_hashes_of_line(std::string_view line) {
  constexpr std::uint64_t kPrime = 0x100000001B3;  // of FNV-1a
  constexpr std::uint64_t kOrder = 0x9E3779B97F4A7C15;
  MinHash pairs;
  std::uint64_t word = 0, before = 0, all = 0;
  std::size_t words = 0;
  const auto end_word = [&] {
    if (word == 0) return;
    all = (all ^ word) * kOrder;
    if (words++ > 0) pairs.add(mixed(before * kOrder + word));
    before = word, word = 0;
  };
  for (const char c : line) {
    const std::uint8_t byte = kWordBytes[static_cast<std::uint8_t>(c)];
    if (byte == 0) {
      end_word();
    } else {
      word = (word ^ byte) * kPrime + 1;
    }
  }
  end_word();
  if (words == 0) return {};
  return words < kFewestWords ? NearHashes{mixed(all) | 1, 0} : pairs.hashes();
}

std::uint64_t NearRow::folded_hash(std::string_view text) {
  if (text.size() <= kCodeBytes) return hash_of(text);
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
