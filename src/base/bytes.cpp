// Hex, UTF-8, sizes as text and the out-of-line parts of ByteWriter and ByteReader.

#include "base/bytes.h"

#include <fmt/core.h>
#include <openssl/evp.h>

#include <array>

#include "base/error.h"

namespace mlx {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Length of the well-formed UTF-8 sequence at the start of `s`, or 0 (Unicode 15, table 3-7: no overlong forms, no
// surrogates, nothing above U+10FFFF).
std::size_t utf8_sequence(ByteView s) {
  const std::uint8_t lead = s[0];
  if (lead < 0x80) return 1;
  std::size_t length = 0;
  std::uint8_t low = 0x80, high = 0xBF;  // allowed range of the second byte
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return 0;
  }
  if (s.size() < length || s[1] < low || s[1] > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (s[i] < 0x80 || s[i] > 0xBF) return 0;
  }
  return length;
}

}  // namespace

std::string to_hex(ByteView bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (std::uint8_t b : bytes) {
    out += kDigits[b >> 4];
    out += kDigits[b & 15];
  }
  return out;
}

Bytes from_hex(std::string_view hex) {
  if (hex.size() % 2 != 0) fail(ErrorKind::kUsage, "hex text has an odd number of digits ({})", hex.size());
  Bytes out;
  out.reserve(hex.size() / 2);
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    const int high = hex_value(hex[i]), low = hex_value(hex[i + 1]);
    if (high < 0 || low < 0) {
      fail(ErrorKind::kUsage, "hex text has something that is no hex digit at position {}", high < 0 ? i : i + 1);
    }
    out.push_back(static_cast<std::uint8_t>(high << 4 | low));
  }
  return out;
}

std::string to_base64(ByteView bytes) {
  constexpr std::size_t kPiece = std::size_t{3} << 24;  // a multiple of three: the pieces join; and it fits an int
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  while (!bytes.empty()) {
    const ByteView piece = bytes.first(std::min(kPiece, bytes.size()));
    bytes = bytes.subspan(piece.size());
    std::vector<unsigned char> encoded((piece.size() + 2) / 3 * 4 + 1);  // and a NUL
    const int length = ::EVP_EncodeBlock(encoded.data(), piece.data(), static_cast<int>(piece.size()));
    text.append(encoded.begin(), encoded.begin() + length);
  }
  return text;
}

std::string format_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  constexpr std::array kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {  // what would print as 1024.0 goes up a unit
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

bool is_utf8(std::string_view text) {
  ByteView rest = as_bytes(text);
  while (!rest.empty()) {
    const std::size_t length = utf8_sequence(rest);
    if (length == 0) return false;
    rest = rest.subspan(length);
  }
  return true;
}

void ByteWriter::varint(std::uint64_t v) {
  while (v >= 0x80) {
    u8(static_cast<std::uint8_t>(v | 0x80));
    v >>= 7;
  }
  u8(static_cast<std::uint8_t>(v));
}

std::uint64_t ByteReader::varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    const std::uint8_t byte = u8();
    // The tenth byte holds the top bit only.
    if (shift == 63 && byte > 1) corrupt("a variable-length integer is larger than 64 bits");
    value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if ((byte & 0x80) == 0) return value;
  }
}

ByteView ByteReader::take(std::uint64_t count) {
  if (count > left()) {
    fail(ErrorKind::kCorrupt, "{}: truncated at offset {}: needs {} bytes, has {}", what_, offset_, count, left());
  }
  const ByteView out = bytes_.subspan(offset_, count);
  offset_ += count;
  return out;
}

void ByteReader::expect_end() const {
  if (!at_end()) fail(ErrorKind::kCorrupt, "{}: {} bytes too many from offset {}", what_, left(), offset_);
}

void ByteReader::corrupt(std::string_view why) const {
  fail(ErrorKind::kCorrupt, "{}: at offset {}: {}", what_, offset_, why);
}

}  // namespace mlx
