// UTF-8 one character at a time (RFC 3629: no overlong forms, no surrogates). What is not UTF-8 counts as one character
// a byte, whose code is above all code points, so that every text is a sequence of characters. Used by all of subword/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mlx::data::subword {

constexpr char32_t kCodePoints = 0x110000;
constexpr char32_t kInvalidByte = 0x110000;  // + the byte
constexpr char32_t kReplacement = 0xFFFD;

struct Character {
  char32_t code = 0;
  std::uint32_t bytes = 1;
};

inline Character multibyte_character(const char* at, const char* end) {
  const auto byte = [at](int i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(at[i])); };
  const std::uint32_t lead = byte(0);
  const Character invalid{kInvalidByte + lead, 1};
  const int length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || end - at < length) return invalid;
  char32_t code = lead & (0x7Fu >> length);
  for (int i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return invalid;
    code = code << 6 | (byte(i) & 0x3F);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  if (overlong || code >= kCodePoints || (code >= 0xD800 && code < 0xE000)) return invalid;
  return {code, static_cast<std::uint32_t>(length)};
}

// The character at `at`, before `end`.
inline Character character_at(const char* at, const char* end) {
  const auto lead = static_cast<unsigned char>(*at);
  if (lead < 0x80) return {lead, 1};
  return multibyte_character(at, end);
}
inline Character character_at(std::string_view text, std::size_t at) {
  return character_at(text.data() + at, text.data() + text.size());
}
// The character that ends at `end`, which is after `begin`.
inline Character character_before(const char* begin, const char* end) {
  for (int back = 1; back <= 4 && end - back >= begin; ++back) {
    if ((static_cast<unsigned char>(end[-back]) & 0xC0) == 0x80) continue;
    const Character found = character_at(end - back, end);
    if (found.bytes == static_cast<std::uint32_t>(back)) return found;
    break;
  }
  return {kInvalidByte + static_cast<unsigned char>(end[-1]), 1};
}

inline int utf8_length(char32_t code) {
  if (code >= kCodePoints) return 1;
  return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
}

inline void append_utf8(std::string& to, char32_t code) {
  const auto add = [&to](char32_t bits) { to.push_back(static_cast<char>(static_cast<unsigned char>(bits))); };
  if (code < 0x80) return add(code);
  if (code >= kCodePoints) return add(code - kInvalidByte);
  if (code < 0x800) {
    add(0xC0 | code >> 6);
  } else if (code < 0x10000) {
    add(0xE0 | code >> 12), add(0x80 | (code >> 6 & 0x3F));
  } else {
    add(0xF0 | code >> 18), add(0x80 | (code >> 12 & 0x3F)), add(0x80 | (code >> 6 & 0x3F));
  }
  add(0x80 | (code & 0x3F));
}

}  // namespace mlx::data::subword
