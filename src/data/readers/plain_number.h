// Numbers as most tables write them: 12, -3, 0.5. Read exactly, without the general conversion. Used by the readers of
// cells.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <string_view>

namespace mlx::data {

// Digits with an optional '-' before and an optional fraction, nothing else, and no needless 0 before them. False for
// all other text; it may be a number too.
//
// Exact by Clinger's rule: a decimal m / 10^k is one correctly rounded division if m < 2^53 and k <= 22, because both
// are exact as doubles. Other decimals go to std::from_chars.
inline bool read_plain_number(std::string_view text, double& value) {
  constexpr std::array<double, 19> kPowers = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8, 1e9,
                                              1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18};
  const char* at = text.data();
  const char* const end = at + text.size();
  const bool negative = at != end && *at == '-';
  if (negative) ++at;
  const char* const first = at;
  std::uint64_t digits = 0;
  const auto take_digits = [&] {
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
  if (whole + fraction > 18 || digits > (std::uint64_t{1} << 53))
    return std::from_chars(text.data(), end, value).ec == std::errc();
  const auto mantissa = static_cast<double>(static_cast<std::int64_t>(digits));
  value = fraction == 0 ? mantissa : mantissa / kPowers[static_cast<std::size_t>(fraction)];
  if (negative) value = -value;
  return true;
}

}  // namespace mlx::data
