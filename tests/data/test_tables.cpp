// Formats of tables: found by content and name, compressed, in other encodings; numbers exact to the last bit.
#include <doctest/doctest.h>
#include <zlib.h>
#include <zstd.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <random>

#include "base/error.h"
#include "data/readers/byte_stream.h"
#include "data/readers/plain_number.h"
#include "data/readers/table_format.h"
#include "data/row_value.h"

using namespace mlx;
using namespace mlx::data;

namespace {

// Header and rows, cells joined by '|', rows by a line end.
std::string shown(const OpenSource& stored, const std::string& name) {
  try {
    const FoundTable found = find_table(stored, name);
    const std::unique_ptr<TableReader> reader = read_table(found.open(), found.kind);
    std::string text, buffer;
    for (const std::string& column : reader->columns()) text += column + "|";
    Row row;
    while (reader->next(row)) {
      text += "\n";
      for (const Cell& cell : row.cells) text += std::string(text_of(cell, buffer)) + "|";
    }
    return text;
  } catch (const Error& error) {
    return "error: " + error.message;
  }
}
std::string shown(const std::string& bytes, const std::string& name) {
  return shown(memory_source(bytes), name);
}

std::string gzipped(const std::string& text) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(text.size() + 1024, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstd_of(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

std::string npy_of(const std::string& descr, const std::string& shape, const std::string& data) {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }\n";
  std::string out = "\x93NUMPY";
  out += std::string({1, 0, static_cast<char>(header.size()), 0});
  return out + header + data;
}

}  // namespace

TEST_CASE("tables: compressed by content, whatever the name") {
  const std::string plain = "a,b\n1,x\n2,y\n", want = "a|b|\n1|x|\n2|y|";
  CHECK(shown(plain, "t.csv") == want);
  CHECK(shown(gzipped(plain), "t.csv.gz") == want);
  CHECK(shown(zstd_of(plain), "t.csv.zst") == want);
  CHECK(shown(zstd_of(plain) + zstd_of("3,z\n"), "t.csv") == want + "\n3|z|");
  CHECK(shown(plain, "t.csv.zst") == want);
  CHECK(shown(zstd_of("{\"a\":1}\n"), "t.jsonl.zst") == "\n1|");
  const std::string packed = zstd_of(plain);
  CHECK(shown(packed.substr(0, packed.size() - 3), "t.csv") ==
        "error: t.csv: offset " + std::to_string(packed.size() - 3) +
            " of the compressed file: cut off: the zstd frame has no end");
  CHECK(shown(packed + "x", "t.csv").find("compressed file") != std::string::npos);
  CHECK(without_compression("a.csv.zst") == "a.csv");
  CHECK(table_kind("a/b.tsv.zst") == TableKind::kTsv);
  CHECK_FALSE(table_kind("b.zst"));
}

TEST_CASE("tables: a large zstd file is read on in pieces and by seeking") {
  std::string plain = "a,b\n";
  for (int i = 0; i < 60000; ++i) plain += std::to_string(i) + "," + std::to_string(i * 7) + "\n";
  const FoundTable found = find_table(memory_source(zstd_of(plain)), "t.csv");
  const std::unique_ptr<TableReader> reader = read_table(found.open(), found.kind);
  Row row;
  std::uint64_t tenth = 0;
  int count = 0;
  for (; reader->next(row); ++count) {
    REQUIRE(row.cells[1].text == std::to_string(count * 7));
    if (count == 10) tenth = row.offset;
  }
  CHECK(count == 60000);
  reader->seek(tenth);
  REQUIRE(reader->next(row));
  CHECK(row.cells[0].text == "10");
  CHECK(lines_of(*found.open(), {tenth}) == std::vector<std::uint64_t>{12});
}

TEST_CASE("tables: UTF-16 with a byte order mark, in both orders") {
  const std::u16string text = u"name,\u00e9t\u00e9\nK\u00f6ln,\U0001F600\n";
  std::string little = "\xFF\xFE", big = "\xFE\xFF";
  for (const char16_t unit : text) {
    little += static_cast<char>(unit & 255), little += static_cast<char>(unit >> 8);
    big += static_cast<char>(unit >> 8), big += static_cast<char>(unit & 255);
  }
  const std::string want = "name|été|\nKöln|😀|";
  CHECK(shown(little, "t.csv") == want);
  CHECK(shown(big, "t.csv") == want);
  CHECK(shown(zstd_of(little), "t.csv.zst") == want);
  CHECK(shown(little + "x", "t.csv") == "error: t.csv: offset 36: UTF-16: the text is cut off inside a character");
  CHECK(shown(std::string("\xFF\xFE\x00\xDC", 4), "t.csv") == "error: t.csv: offset 2: UTF-16: half a surrogate pair");
}

TEST_CASE("bug: tables: errors of UTF-16 and of compressed text name the file, once") {
  std::string cut = zstd_of("a\n" + std::string(100, '1'));
  cut.resize(cut.size() - 3);
  for (const auto& [bytes, why] :
       {std::pair(std::string("\xFF\xFE\x00\xDC", 4), "offset 2: UTF-16"), std::pair(cut, "offset")}) {
    const RowFile file{plain_text(memory_source(bytes), "t.csv"), TableKind::kCsv, "t.csv"};
    std::string message;
    try {
      in_table(file, [&] { return read_head(*file.open(), 4096).size(); });
    } catch (const Error& error) {
      message = error.message;
    }
    const std::string want = std::string("t.csv: ") + why;
    CHECK_MESSAGE(message.starts_with(want), message);
  }
}

TEST_CASE("tables: the content decides before the name") {
  const std::string array = npy_of("<i4", "(2, 2)", std::string("\1\0\0\0\2\0\0\0\3\0\0\0\xFF\xFF\xFF\xFF", 16));
  CHECK(shown(array, "t.csv") == "1|2|\n1|2|\n3|-1|");
  CHECK(shown(array, "t.npy") == "1|2|\n1|2|\n3|-1|");
  CHECK(shown("a,b\n", "t.npy") == "error: t.npy: not npy, by its first bytes");
  CHECK(shown("a,b\n", "t.bin").starts_with("error: t.bin: not a table by its name"));
}

TEST_CASE("tables: npy of other types, and of damaged files") {
  CHECK(shown(npy_of("<f4", "(2,)", std::string("\0\0\x80\x3f\0\0\xc0\x7f", 8)), "x.npy") == "1|\n1|\n|");
  CHECK(shown(npy_of("<f2", "(3,)", std::string("\0\x3c\1\0\0\xc0", 6)), "x.npy") ==
        "1|\n1|\n5.960464477539063e-08|\n-2|");
  CHECK(shown(npy_of("|b1", "(1, 2)", std::string("\1\0", 2)), "x.npy") == "1|2|\ntrue|false|");
  CHECK(shown(npy_of("<u8", "(1,)", std::string(8, '\xff')), "x.npy") == "1|\n18446744073709551616|");
  CHECK(shown(npy_of("<i8", "(9,)", std::string(8, '\1')), "x.npy") ==
        "error: row 2: the file is cut off, 9 rows are declared");
  CHECK(shown(npy_of(">i8", "(1,)", ""), "x.npy") ==
        "error: npy: elements of type '>i8', expected little-endian numbers");
  CHECK(shown(npy_of("<i8", "(1,2,3)", ""), "x.npy") == "error: npy: an array of 3 dimensions, a table has one or two");
  CHECK(shown(npy_of("<i8", "(1, 99999999)", ""), "x.npy") ==
        "error: npy: 99999999 columns, more than a table may have");
}

TEST_CASE("tables: plain numbers have the bits of std::from_chars") {
  std::mt19937_64 random(7);
  for (int i = 0; i < 200000; ++i) {
    std::string text = i % 3 ? "" : "-";
    text += std::to_string(random() >> (random() % 64));
    if (i % 4) text += "." + std::to_string(random() >> (random() % 64));
    double plain = 0, want = 0;
    REQUIRE(read_plain_number(text, plain));
    std::from_chars(text.data(), text.data() + text.size(), want);
    CHECK_MESSAGE(std::bit_cast<std::uint64_t>(plain) == std::bit_cast<std::uint64_t>(want), text);
    // The padded reader answers the same, whatever follows, and for text that is no number.
    if (i % 5 == 0) text[random() % text.size()] = ".-+eE/: 0\xb0"[random() % 10];
    const std::string padded = text + (i % 2 ? "12345678" : "1.,\n-:/\xff");
    double other = plain;
    const bool is_number = read_plain_number(text, plain);
    CHECK_MESSAGE(read_padded_number({padded.data(), text.size()}, other) == is_number, text);
    CHECK_MESSAGE(std::bit_cast<std::uint64_t>(plain) == std::bit_cast<std::uint64_t>(other), text);
  }
  double value = 0;
  for (const char* other :
       {"", "-", "+1", "1.", ".5", "01", "-00.5", "1e5", "1,5", " 1", "1 ", "0x1", "1.2.3", "nan"}) {
    CHECK_MESSAGE(!read_plain_number(other, value), other);
    const std::string padded = other + std::string(8, '5');
    CHECK_MESSAGE(!read_padded_number({padded.data(), std::strlen(other)}, value), other);
  }
  CHECK((read_plain_number("-0", value) && std::signbit(value)));
}

TEST_CASE("tables: cells of every length end where they should, whatever the block they begin in") {
  std::string text = "a,b,c\n", want = "a|b|c|";
  for (int i = 0; i < 150; ++i) {
    const std::string first(static_cast<std::size_t>(i), 'x'), second = std::to_string(i);
    text += first + "," +
            (i % 5 == 0 ? "\"q,\"\"" + second + "\"\n" : second + ",\r\n").insert(i % 5 == 0 ? 0 : second.size(), "");
    if (i % 5 == 0) text.insert(text.size() - 1, ",");
    want += "\n" + first + "|" + (i % 5 == 0 ? "q,\"" : "") + second + "||";
  }
  CHECK(shown(text, "t.csv") == want);
}

TEST_CASE("tables: a million columns, and a line without an end") {
  std::string wide = "a";
  for (int i = 0; i < 1'000'000; ++i) wide += ",1";
  CHECK(shown(wide + "\n", "t.csv") == "error: line 1: more than the 16384 columns that a table may have");
  CHECK(shown("a,b\n" + std::string(17 << 20, 'x'), "t.csv") == "error: line 2: a row of more than 16 MiB");
  CHECK(shown("a\n{\"a\":\"" + std::string(17 << 20, 'x'), "t.jsonl").starts_with("error: line "));
}

TEST_CASE("bug: tables: numbers too small or too large for a double without and with an exponent") {
  CellReader cells(TableKind::kCsv);
  const auto read = [&](const std::string& text) {
    Cell cell;
    cell.text = text;
    return cells.read(cell).number;
  };
  CHECK(read("0." + std::string(330, '0') + "1") == 0);
  CHECK(read("1" + std::string(400, '0') + "e-5") == HUGE_VAL);
  CHECK(read("1e-400") == 0);
  CHECK(read("-1e400") == -HUGE_VAL);
}
