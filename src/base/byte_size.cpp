// A number and a unit.
#include "base/byte_size.h"

#include <charconv>
#include <utility>

#include "base/error.h"

namespace mlx {

std::uint64_t parse_byte_size(std::string_view text) {
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"", 1},     {"B", 1},    {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
      {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9},     {"TiB", 0x1p40}, {"TB", 1e12}};
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  for (const auto& [name, bytes] : kUnits) {
    const bool fits = error == std::errc() && unit == name && number >= 0 && number * bytes < 0x1p62;
    if (fits) return static_cast<std::uint64_t>(number * bytes);
  }
  fail(ErrorKind::kUsage, "expected a size like 4GiB or 500MiB, got \"{}\"", text);
}

}  // namespace mlx
