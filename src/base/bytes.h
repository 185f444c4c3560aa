// Owned and borrowed bytes, hex, and bounds-checked little-endian reading and writing.
//
// Every binary format is parsed through ByteReader: reading past the end throws Error{kCorrupt} naming the offset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mlx {

using Bytes = std::vector<std::uint8_t>;
using ByteView = std::span<const std::uint8_t>;

inline ByteView as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}
inline std::string_view as_text(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline Bytes to_bytes(std::string_view text) {
  return Bytes(text.begin(), text.end());
}

std::string to_hex(ByteView bytes);
// Lower- or upper-case digits, even count. Throws kUsage otherwise.
Bytes from_hex(std::string_view hex);

std::string to_base64(ByteView bytes);  // RFC 4648, padded, one line

std::string format_bytes(std::uint64_t bytes);  // "1.2 MiB"
bool is_utf8(std::string_view text);

template <typename T>
T load_little_endian(const std::uint8_t* at) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) value = static_cast<T>(value | static_cast<T>(at[i]) << (8 * i));
  return value;
}

// Appends little-endian integers and raw bytes to a buffer that it owns.
class ByteWriter {
 public:
  explicit ByteWriter(std::size_t expected_size = 0) { bytes_.reserve(expected_size); }
  void u8(std::uint8_t v) { bytes_.push_back(v); }
  void u16(std::uint16_t v) { put(v); }
  void u32(std::uint32_t v) { put(v); }
  void u64(std::uint64_t v) { put(v); }
  void varint(std::uint64_t v);  // LEB128
  void raw(ByteView v) { bytes_.insert(bytes_.end(), v.begin(), v.end()); }
  void sized(ByteView v) { varint(v.size()), raw(v); }
  std::size_t size() const { return bytes_.size(); }
  const Bytes& bytes() const { return bytes_; }
  Bytes take() { return std::move(bytes_); }

 private:
  template <typename T>
  void put(T v) {
    for (std::size_t i = 0; i < sizeof(T); ++i) bytes_.push_back(static_cast<std::uint8_t>(v >> (8 * i)));
  }
  Bytes bytes_;
};

// Reads from a view that outlives it. `what` names the thing being read in errors ("pack /x/y.pack").
class ByteReader {
 public:
  explicit ByteReader(ByteView bytes, std::string what = "data") : bytes_(bytes), what_(std::move(what)) {}
  std::uint8_t u8() { return take(1)[0]; }
  std::uint16_t u16() { return get<std::uint16_t>(); }
  std::uint32_t u32() { return get<std::uint32_t>(); }
  std::uint64_t u64() { return get<std::uint64_t>(); }
  std::uint64_t varint();
  ByteView take(std::uint64_t count);
  ByteView sized() { return take(varint()); }
  std::size_t offset() const { return offset_; }
  std::size_t left() const { return bytes_.size() - offset_; }
  bool at_end() const { return left() == 0; }
  void expect_end() const;  // throws kCorrupt if bytes are left over
  [[noreturn]] void corrupt(std::string_view why) const;

 private:
  template <typename T>
  T get() {
    return load_little_endian<T>(take(sizeof(T)).data());
  }
  ByteView bytes_;
  std::string what_;
  std::size_t offset_ = 0;
};

}  // namespace mlx
