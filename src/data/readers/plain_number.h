// Numbers as most tables write them: 12, -3, 0.5. Read exactly, without the general conversion. Used by the readers of
// cells.
#pragma once

#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace mlx::data {

// Eight digits at once. Source: D. Lemire, "Quickly parsing eight digits", 2022. The first digit is the lowest byte.
constexpr bool are_eight_digits(std::uint64_t text) {
  const std::uint64_t high = text & 0xF0F0F0F0F0F0F0F0;
  const std::uint64_t carried = (text + 0x0606060606060606) & 0xF0F0F0F0F0F0F0F0;  // a byte above '9' changes
  return (high | carried >> 4) == 0x3333333333333333;
}
constexpr std::uint64_t eight_digits(std::uint64_t text) {
  text -= 0x3030303030303030;
  text = text * 10 + (text >> 8);  // pairs
  constexpr std::uint64_t kPairs = 0x000000FF000000FF;
  return ((text & kPairs) * (100 + (std::uint64_t{1000000} << 32)) +
          (text >> 16 & kPairs) * (1 + (std::uint64_t{10000} << 32))) >>
         32;
}

constexpr std::array<std::uint64_t, 20> kIntegerPowers = [] {
  std::array<std::uint64_t, 20> powers{1};
  for (std::size_t i = 1; i < powers.size(); ++i) powers[i] = powers[i - 1] * 10;
  return powers;
}();

// The double nearest to digits / 10^fraction, for fraction <= 19.
//
// If digits <= 2^53 and fraction <= 22, both are exact doubles, so that one division rounds correctly (Clinger's rule).
// Otherwise an integer division of 128 by 64 bits gives at least 62 bits of the quotient. Its lowest bit is set if
// there is a remainder; the conversion to a double then rounds as the exact quotient would.
inline double decimal_double(std::uint64_t digits, std::size_t fraction) {
  if (digits <= std::uint64_t{1} << 53)
    return static_cast<double>(static_cast<std::int64_t>(digits)) / static_cast<double>(kIntegerPowers[fraction]);
  if (fraction == 0) return static_cast<double>(digits);
  __extension__ using Wide = unsigned __int128;
  const int up = std::countl_zero(digits), up_divisor = std::countl_zero(kIntegerPowers[fraction]);
  const std::uint64_t divisor = kIntegerPowers[fraction] << up_divisor;
  const Wide dividend = Wide{digits << up} << 63;  // its upper half is below the divisor
  const auto quotient = static_cast<std::uint64_t>(dividend / divisor);
  const bool rest = Wide{quotient} * divisor != dividend;
  const auto scale = static_cast<std::uint64_t>(1023 + up_divisor - up - 63) << 52;  // a power of two
  return static_cast<double>(quotient | static_cast<std::uint64_t>(rest)) * std::bit_cast<double>(scale);
}

// Digits with an optional '-' before and an optional fraction, nothing else, and no needless 0 before them. False for
// all other text; it may be a number too.
inline bool read_plain_number(std::string_view text, double& value) {
  const char* at = text.data();
  const char* const end = at + text.size();
  const bool negative = at != end && *at == '-';
  if (negative) ++at;
  const char* const first = at;
  std::uint64_t digits = 0;
  const auto take_digits = [&] {
    for (std::uint64_t eight = 0; end - at >= 8; at += 8) {
      std::memcpy(&eight, at, 8);
      if (!are_eight_digits(eight)) break;
      digits = digits * 100000000 + eight_digits(eight);
    }
    for (unsigned digit; at != end && (digit = static_cast<unsigned>(*at) - '0') < 10; ++at)
      digits = digits * 10 + digit;
  };
  take_digits();
  const auto whole = at - first;
  if (whole == 0 || (whole > 1 && *first == '0')) return false;
  std::ptrdiff_t fraction = 0;
  if (at != end) {
    if (*at != '.') return false;
    const char* const begin = ++at;
    take_digits();
    fraction = at - begin;
    if (at != end || fraction == 0) return false;
  }
  if (whole + fraction > 19) return std::from_chars(text.data(), end, value).ec == std::errc();
  value = decimal_double(digits, static_cast<std::size_t>(fraction));
  if (negative) value = -value;
  return true;
}

// The same for text that 8 readable bytes follow at least: short numbers are read without a loop over their digits, as
// lengths that vary cost a mispredicted branch a cell.
[[gnu::always_inline]] inline bool read_padded_number(std::string_view text, double& value) {
  if (text.empty()) return false;
  const std::size_t negative = text[0] == '-';
  const std::size_t size = text.size() - negative;
  if (size - 1 >= 8) return read_plain_number(text, value);
  const char* const first = text.data() + negative;
  std::uint64_t eight = 0;
  std::memcpy(&eight, first, 8);
  // The text moves to the upper bytes; zeros stand before it.
  eight = eight << (64 - 8 * size) | (std::uint64_t{0x3030303030303030} >> 1 >> (8 * size - 1));
  std::size_t whole = size, fraction = 0;
  const std::uint64_t dots = eight ^ 0x2E2E2E2E2E2E2E2E;
  const std::uint64_t found = (dots - 0x0101010101010101) & ~dots & 0x8080808080808080;
  if (found != 0) {
    const auto dot = static_cast<std::size_t>(std::countr_zero(found)) / 8;
    const std::uint64_t before = (std::uint64_t{1} << 8 * dot) - 1, upto = before << 8 | 0xFF;
    eight = (eight & ~upto) | (eight & before) << 8 | '0';
    fraction = 7 - dot;
    whole = size - 1 - fraction;
    if (fraction == 0) return false;
  }
  if (whole == 0 || (whole > 1 && *first == '0') || !are_eight_digits(eight)) return false;
  const double number = static_cast<double>(static_cast<std::int64_t>(eight_digits(eight))) /
                        static_cast<double>(static_cast<std::int64_t>(kIntegerPowers[fraction]));
  value = std::bit_cast<double>(std::bit_cast<std::uint64_t>(number) ^ std::uint64_t{negative} << 63);
  return true;
}

}  // namespace mlx::data
