// Guesses a dialect from a file's first lines, and converts its cells to the plain one.
#include "data/readers/csv_dialect.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "data/readers/utf16.h"

namespace mlx::data {
namespace {

constexpr std::size_t kLooked = std::size_t{64} << 10;  // bytes
constexpr int kLines = 20;

// The number of cells in each of the first lines; 0 if they differ.
std::size_t cells_of_lines(std::string_view text, char separator, bool whole) {
  std::size_t all = 0, cells = 1, length = 0;
  bool quoted = false;
  int lines = 0;
  const auto end_line = [&] {
    const bool same = length == 0 || all == 0 || cells == all;
    if (length > 0) all = cells, ++lines;
    cells = 1, length = 0;
    return same;
  };
  for (const char c : text) {
    if (c == '"') quoted = !quoted;
    if (c == '\n' && !quoted) {
      if (!end_line()) return 0;
      if (lines == kLines) return all;
      continue;
    }
    length += c != '\r';
    cells += c == separator && !quoted;
  }
  if ((whole || lines == 0) && !end_line()) return 0;
  return all;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Code points of bytes 0x80 to 0x9F; 0: undefined.
constexpr std::array<std::uint16_t, 32> kWindows = {0x20AC, 0,      0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021,
                                                    0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0,      0x017D, 0,
                                                    0,      0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014,
                                                    0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0,      0x017E, 0x0178};

}  // namespace

char find_separator(std::string_view text, bool whole) {
  whole = whole && text.size() <= kLooked;
  text = text.substr(0, kLooked);
  for (const char separator : {',', ';', '\t', '|'})
    if (cells_of_lines(text, separator, whole) > 1) return separator;
  return ',';
}

bool has_decimal_comma(std::string_view cell) {
  std::size_t at = !cell.empty() && (cell[0] == '-' || cell[0] == '+') ? 1 : 0;
  const auto digits = [&] {
    const std::size_t from = at;
    while (at < cell.size() && is_digit(cell[at])) ++at;
    return at - from;
  };
  if (digits() == 0 || at == cell.size() || cell[at] != ',') return false;
  ++at;
  if (digits() == 0) return false;
  if (at < cell.size() && (cell[at] == 'e' || cell[at] == 'E')) {
    ++at;
    if (at < cell.size() && (cell[at] == '-' || cell[at] == '+')) ++at;
    if (digits() == 0) return false;
  }
  return at == cell.size();
}

bool has_high_byte(std::string_view text) {
  std::uint64_t all = 0, eight = 0;
  for (; text.size() >= sizeof eight; text.remove_prefix(sizeof eight)) {
    std::memcpy(&eight, text.data(), sizeof eight);
    all |= eight;
  }
  for (const char c : text) all |= static_cast<unsigned char>(c);
  return (all & 0x8080808080808080) != 0;
}

std::optional<std::string> from_windows_1252(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const std::uint32_t point = byte >= 0x80 && byte < 0xA0 ? kWindows[byte - 0x80u] : byte;
    if (point == 0) return std::nullopt;
    append_utf8(out, point);
  }
  return out;
}

}  // namespace mlx::data
