// Parquet tables that pyarrow wrote (tests/data/parquet/make_parquet.py), cell by cell; damaged ones; Snappy.
#include <doctest/doctest.h>

#include <random>
#include <sstream>

#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "data/readers/table_format.h"
#include "formats/parquet_encodings.h"
#include "formats/snappy.h"

using namespace mlx;
using namespace mlx::data;

namespace {

std::string fixture(const std::string& name) {
  return std::string(as_text(read_file(std::string(MLX_SOURCE_DIR) + "/tests/data/parquet/" + name)));
}

Json json_of(const Cell& cell) {
  switch (cell.form) {
    case Cell::Form::kInt:
      return cell.integer;
    case Cell::Form::kFloat:
      return cell.number;
    case Cell::Form::kBool:
      return cell.text == "true";
    case Cell::Form::kText:
      return std::string(cell.text);
    default:
      return nullptr;
  }
}

Json read_row(TableReader& reader) {
  Row row;
  REQUIRE(reader.next(row));
  Json out = Json::object();
  for (const Cell& cell : row.cells) out[reader.columns()[cell.column]] = json_of(cell);
  return out;
}

std::unique_ptr<TableReader> open_table(const std::string& bytes) {
  const FoundTable found = find_table(memory_source(bytes), "table");  // by its content
  return read_table(found.open(), found.kind);
}

std::vector<Json> expected(const std::string& name) {
  std::vector<Json> rows;
  std::istringstream lines(fixture(name + ".jsonl"));
  for (std::string line; std::getline(lines, line);) rows.push_back(parse_json(line, name));
  return rows;
}

std::string error_of(const std::string& bytes) {
  try {
    const std::unique_ptr<TableReader> reader = open_table(bytes);
    Row row;
    while (reader->next(row)) continue;
  } catch (const Error& error) {
    return error.message + (error.hint.empty() ? "" : " | " + error.hint);
  }
  return "no error";
}

}  // namespace

TEST_CASE("parquet: rows of pyarrow's files have pyarrow's values") {
  for (const char* name : {"snappy", "plain_v2_zstd", "groups_gzip", "pages_none", "int96", "empty", "delta"}) {
    CAPTURE(name);
    const std::vector<Json> want = expected(name);
    const std::unique_ptr<TableReader> reader = open_table(fixture(name + std::string(".parquet")));
    CHECK(reader->columns().size() == 16);
    CHECK(reader->found_out() == "left out as lists, groups or binary: list.list.element");
    for (const Json& row : want) CHECK(read_row(*reader) == row);
    Row row;
    CHECK_FALSE(reader->next(row));
  }
}

TEST_CASE("parquet: reading goes on at any row") {
  for (const char* name : {"snappy", "plain_v2_zstd", "groups_gzip", "pages_none", "delta"}) {
    CAPTURE(name);
    const std::vector<Json> want = expected(name);
    const std::unique_ptr<TableReader> reader = open_table(fixture(name + std::string(".parquet")));
    for (const std::size_t at : {39, 0, 6, 7, 8, 20, 19, 0}) {
      CAPTURE(at);
      reader->seek(at);
      CHECK(read_row(*reader) == want[at]);
      if (at + 1 < want.size()) CHECK(read_row(*reader) == want[at + 1]);
    }
    reader->seek(40);
    Row row;
    CHECK_FALSE(reader->next(row));
  }
}

TEST_CASE("parquet: delta encodings over several blocks") {
  const std::unique_ptr<TableReader> reader = open_table(fixture("delta_long.parquet"));
  for (const Json& row : expected("delta_long")) CHECK(read_row(*reader) == row);
  Row row;
  CHECK_FALSE(reader->next(row));
}

TEST_CASE("parquet: damaged encodings are errors, within a limit of bytes") {
  using formats::ParquetEncoding;
  using formats::ParquetType;
  const auto decoded = [](ParquetEncoding encoding, ParquetType type, Bytes page, std::size_t most = 1024) {
    formats::ParquetColumn column;
    column.type = type, column.length = 4;
    try {
      return std::to_string(formats::plain_parquet_values(encoding, page, column, 1 << 20, most).size());
    } catch (const Error& error) {
      return error.message.substr(error.message.find("values ") + 7);
    }
  };
  const auto delta = ParquetEncoding::kDeltaBinaryPacked;
  CHECK(decoded(delta, ParquetType::kInt32, {128, 1, 4, 1, 14}) == "4");                     // one value, no block
  CHECK(decoded(delta, ParquetType::kInt32, {128, 1, 4, 100, 14, 2, 0, 0, 0, 0}) == "400");  // steps of width 0
  CHECK(decoded(delta, ParquetType::kInt32, {128, 1, 4, 100, 14, 2, 0, 0, 0, 0}, 396) == "has too many values");
  CHECK(decoded(delta, ParquetType::kInt32, {128, 1, 4, 2, 14, 2, 65, 0, 0, 0}) == "has an impossible width");
  CHECK(decoded(delta, ParquetType::kInt32, {128, 1, 4, 2, 14, 2, 64, 0, 0, 0}) == "is cut off");
  CHECK(decoded(delta, ParquetType::kInt32, {128, 1, 0, 2, 14}) == "has an impossible block");
  CHECK(decoded(delta, ParquetType::kDouble, {128, 1, 4, 1, 14}) ==
        "is in an encoding that cannot hold the column's type");
  // The first of two texts shares a byte with the one before it, which there is not.
  CHECK(decoded(ParquetEncoding::kDeltaByteArray, ParquetType::kByteArray, {128, 1, 4, 1, 2, 128, 1, 4, 1, 2, 'a'}) ==
        "repeats more of a value than it has");
  CHECK(decoded(ParquetEncoding::kDeltaLengthByteArray, ParquetType::kByteArray, {128, 1, 4, 1, 1}) == "is cut off");
  CHECK(decoded(ParquetEncoding::kByteStreamSplit, ParquetType::kFloat, {1, 2, 3}) == "is cut off");
}

TEST_CASE("parquet: what is not read is named") {
  CHECK(error_of(fixture("brotli.parquet")) ==
        "column 'i8': Brotli compression is not read | write the file with Snappy, gzip, zstd or none");
}

TEST_CASE("parquet: damaged files are errors, never memory") {
  const std::string whole = fixture("groups_gzip.parquet");
  CHECK(error_of(whole.substr(0, whole.size() - 1)) == "parquet: the file has no end | it may be cut off");
  CHECK(error_of("PAR1") == "parquet: the file has no end | it may be cut off");
  CHECK(error_of("PAR1\xff\xff\xff\x0fPAR1") == "parquet: an impossible footer");
  std::mt19937 random(1);
  for (const char* name : {"snappy", "plain_v2_zstd", "pages_none", "int96", "delta", "delta_long"}) {
    const std::string bytes = fixture(name + std::string(".parquet"));
    for (int i = 0; i < 400; ++i) {
      std::string damaged = bytes;
      // The footer, which decides where everything is, stands in the last part.
      const std::size_t from = i % 2 ? bytes.size() / 2 : 4;
      for (int change = 0; change < 1 + i % 3; ++change)
        damaged[from + random() % (bytes.size() - from - 8)] = static_cast<char>(random());
      (void)error_of(damaged);
    }
  }
}

TEST_CASE("snappy: literals, copies that overlap, and damage") {
  const auto unpacked = [](const std::string& packed, std::size_t size) {
    Bytes plain(size);
    try {
      formats::unpack_snappy(as_bytes(packed), plain);
    } catch (const Error& error) {
      return error.message;
    }
    return std::string(as_text(plain));
  };
  CHECK(unpacked(std::string("\x03\x08"
                             "abc",
                             5),
                 3) == "abc");
  CHECK(unpacked(std::string("\x0a\x04"
                             "ab"
                             "\x11\x02",
                             6),
                 10) == "ababababab");
  CHECK(unpacked(std::string("\x06\x08"
                             "xyz"
                             "\x0a\x03\x00",
                             8),
                 6) == "xyzxyz");
  CHECK(unpacked(std::string("\x06\x08"
                             "xyz"
                             "\x0a\x04\x00",
                             8),
                 6) == "snappy: a copy from before the beginning");
  CHECK(unpacked(std::string("\x03\x08"
                             "ab",
                             4),
                 3) == "snappy: the data is cut off");
  CHECK(unpacked(std::string("\x04\x08"
                             "abc",
                             5),
                 4) == "snappy: the data is shorter than its size");
  CHECK(unpacked(std::string("\x03\x08"
                             "abc",
                             5),
                 5) == "snappy: the data has another size than its page says");
}

TEST_CASE("parquet: a Snappy copy that repeats what it has just written reaches back by its offset") {
  Bytes plain(9);
  formats::unpack_snappy(Bytes{9, 2 << 2, 'a', 'b', 'c', (6 - 4) << 2 | 1, 3}, plain);
  CHECK(as_text(plain) == "abcabcabc");
}
