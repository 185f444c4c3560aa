// Names of bytes, and what of a text is no UTF-8.

#include "data/subword/byte_tokens.h"

#include <fmt/format.h>

#include "data/subword/utf8.h"

namespace mlx::data::subword {

std::string byte_name(unsigned char byte) {
  return fmt::format("<0x{:02X}>", byte);
}

std::optional<unsigned char> byte_named(std::string_view name) {
  if (name.size() != 6 || !name.starts_with("<0x") || name.back() != '>') return std::nullopt;
  unsigned value = 0;
  for (const char c : name.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return std::nullopt;
    value = value * 16 + static_cast<unsigned>(digit);
  }
  return static_cast<unsigned char>(value);
}

bool is_whole_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    if (character.code >= kCodePoints) return false;
    at += character.bytes;
  }
  return true;
}

std::size_t invalid_prefix(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0xC2 || lead > 0xF4) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  const unsigned least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  std::size_t taken = 1;
  while (taken < length && taken < text.size()) {
    const unsigned next = byte(taken);
    const bool fits = taken == 1 ? next >= least && next <= most : (next & 0xC0) == 0x80;
    if (!fits) break;
    ++taken;
  }
  return taken;
}

}  // namespace mlx::data::subword
