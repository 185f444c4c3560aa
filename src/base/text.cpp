#include "base/text.h"

#include <fmt/format.h>

#include <cmath>

#include "base/bytes.h"

namespace mlx {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::string grouped(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

std::string brief_number(double value) {
  const bool whole = std::abs(value) >= 1000 && std::abs(value) < 1e15;
  return whole ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

std::string hundredths(double value) {
  const std::string text = fmt::format("{:.2f}", value);
  return text == "-0.00" ? "0.00" : text;
}

std::string counted(std::uint64_t count, const char* singular) {
  return fmt::format("{} {}{}", grouped(count), singular, count == 1 ? "" : "s");
}

std::string printable(std::string_view text) {
  std::string out;
  const bool utf8 = is_utf8(text);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009F, two bytes from 0xC2, are control characters as well.
    const bool c1 = utf8 && byte == 0xC2 && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (c1) ++i;
    if (byte == '\n' || byte == '\t') {
      out += ' ';
    } else {
      out += c1 || byte < 0x20 || byte == 0x7F || (byte >= 0x80 && !utf8) ? '?' : text[i];
    }
  }
  return out;
}

std::string shell_quoted(std::string_view text) {
  constexpr std::string_view kSpecial = " \t\r\n'\"\\$`*?[]{}()<>|&;#!";
  const bool plain = !text.empty() && text.front() != '~' && text.find_first_of(kSpecial) == text.npos;
  if (plain) return std::string(text);
  std::string out = "'";
  for (const char c : text) c == '\'' ? out += "'\\''" : out += c;
  return out + "'";
}

}  // namespace mlx
