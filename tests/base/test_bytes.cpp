// Hex, UTF-8, sizes, and that ByteReader never leaves its bytes.
#include <doctest/doctest.h>

#include <array>

#include "base/bytes.h"
#include "throws.h"

using namespace mlx;

TEST_CASE("hex goes both ways and refuses what is no hex") {
  const Bytes bytes = {0x00, 0x7f, 0xab, 0xff};
  CHECK_EQ(to_hex(bytes), "007fabff");
  CHECK(from_hex("007fabff") == bytes);
  CHECK(from_hex("007FABFF") == bytes);
  CHECK(from_hex("").empty());
  CHECK(error_of([] { from_hex("abc"); }).kind == ErrorKind::kUsage);
  const Error error = error_of([] { from_hex("00zz"); });
  CHECK(error.kind == ErrorKind::kUsage);
  CHECK(contains(error.message, "position 2"));
}

TEST_CASE("sizes are told in binary units, never as 1024.0 of the smaller one") {
  CHECK_EQ(format_bytes(0), "0 B");
  CHECK_EQ(format_bytes(1023), "1023 B");
  CHECK_EQ(format_bytes(1024), "1.0 KiB");
  CHECK_EQ(format_bytes(1258291), "1.2 MiB");
  CHECK_EQ(format_bytes(1024 * 1024 - 1), "1.0 MiB");
  CHECK_EQ(format_bytes(UINT64_MAX), "16.0 EiB");
}

TEST_CASE("UTF-8 is checked as Unicode defines it") {
  CHECK(is_utf8(""));
  CHECK(is_utf8("plain"));
  CHECK(is_utf8("Grüße, 世界 \xF0\x9F\x98\x80"));
  CHECK(is_utf8("\xF4\x8F\xBF\xBF"));        // U+10FFFF
  CHECK_FALSE(is_utf8("\xF4\x90\x80\x80"));  // beyond it
  CHECK_FALSE(is_utf8("\xC0\xAF"));          // overlong
  CHECK_FALSE(is_utf8("\xE0\x80\x80"));      // overlong
  CHECK_FALSE(is_utf8("\xF0\x80\x80\x80"));  // overlong
  CHECK_FALSE(is_utf8("\xED\xA0\x80"));      // surrogate
  CHECK_FALSE(is_utf8("\x80"));              // continuation first
  CHECK_FALSE(is_utf8("abc\xE4\xB8"));       // cut off
  CHECK_FALSE(is_utf8("\xFF"));
}

TEST_CASE("what ByteWriter writes, ByteReader reads") {
  ByteWriter writer;
  writer.u8(0xFE);
  writer.u16(0xBEEF);
  writer.u32(0xDEADBEEF);
  writer.u64(0x0123456789ABCDEF);
  constexpr std::array<std::uint64_t, 7> kValues = {0, 1, 127, 128, 16383, 1ULL << 63, UINT64_MAX};
  for (std::uint64_t v : kValues) writer.varint(v);
  writer.sized(as_bytes("name"));
  writer.sized({});
  CHECK_EQ(writer.size(), writer.bytes().size());
  const Bytes bytes = writer.take();
  CHECK_EQ(bytes[1], 0xEF);  // little-endian

  ByteReader reader(bytes, "record");
  CHECK_EQ(reader.u8(), 0xFE);
  CHECK_EQ(reader.u16(), 0xBEEF);
  CHECK_EQ(reader.u32(), 0xDEADBEEF);
  CHECK_EQ(reader.u64(), 0x0123456789ABCDEF);
  for (std::uint64_t v : kValues) CHECK_EQ(reader.varint(), v);
  CHECK_EQ(as_text(reader.sized()), "name");
  CHECK(reader.sized().empty());
  CHECK(reader.at_end());
  reader.expect_end();
}

TEST_CASE("reading past the end names the thing and the offset") {
  const Bytes bytes = {1, 2, 3};
  ByteReader reader(bytes, "pack x");
  reader.u16();
  const Error error = error_of([&] { reader.u32(); });
  CHECK(error.kind == ErrorKind::kCorrupt);
  CHECK_EQ(error.message, "pack x: truncated at offset 2: needs 4 bytes, has 1");
  CHECK_EQ(reader.offset(), 2);  // nothing was taken
  CHECK(error_of([&] { reader.take(UINT64_MAX); }).kind == ErrorKind::kCorrupt);
  CHECK(error_of([&] { reader.expect_end(); }).kind == ErrorKind::kCorrupt);
}

TEST_CASE("hostile lengths are errors") {
  const Bytes too_large(11, 0xFF);  // more than 64 bits
  CHECK(error_of([&] { ByteReader(too_large).varint(); }).kind == ErrorKind::kCorrupt);
  Bytes bit_65(9, 0x80);
  bit_65.push_back(2);
  CHECK(error_of([&] { ByteReader(bit_65).varint(); }).kind == ErrorKind::kCorrupt);
  const Bytes unfinished = {0x80, 0x80};
  CHECK(error_of([&] { ByteReader(unfinished).varint(); }).kind == ErrorKind::kCorrupt);
  const Bytes longer_than_data = {200, 1, 'a'};  // says 200 bytes
  CHECK(error_of([&] { ByteReader(longer_than_data).sized(); }).kind == ErrorKind::kCorrupt);
}
