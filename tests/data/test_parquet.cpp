// Parquet tables that pyarrow wrote (tests/data/parquet/make_parquet.py), cell by cell; damaged ones; Snappy.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <sstream>

#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "data/readers/table_format.h"
#include "data/rows.h"
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

namespace {

// All that a reader says of its rows, to the end or to an error: by blocks, or by rows.
std::string all_rows(const std::string& bytes, bool by_blocks) {
  std::string text, buffer;
  const auto add = [&](const Cell& cell) {
    text += std::to_string(static_cast<int>(cell.form)) + std::string(text_of(cell, buffer)) + "|";
  };
  try {
    const std::unique_ptr<TableReader> reader = open_table(bytes);
    REQUIRE(reader->has_blocks());
    for (Row row; !by_blocks && reader->next(row); text += "\n")
      for (const Cell& cell : row.cells) add(cell);
    for (RowBlock block; by_blocks && reader->next_block(block);) {
      CHECK(block.rows > 0);
      for (std::size_t row = 0; row < block.rows; ++row, text += "\n")
        for (const ColumnBlock& column : block.columns) add(column.cell(row));
    }
  } catch (const Error& error) {
    return text + error.message;
  }
  return text;
}

// The same table as CSV, whose rows are read cell by cell.
std::string as_csv(const std::string& bytes) {
  const std::unique_ptr<TableReader> reader = open_table(bytes);
  std::string text, buffer;
  for (const std::string& name : reader->columns()) text += (text.empty() ? "" : ",") + name;
  for (Row row; reader->next(row);)
    for (const Cell& cell : row.cells) text += (cell.column == 0 ? "\n" : ",") + std::string(text_of(cell, buffer));
  return text + "\n";
}

}  // namespace

TEST_CASE("parquet: blocks have the cells of rows, in damaged files too") {
  std::mt19937 random(2);
  for (const char* name : {"snappy", "plain_v2_zstd", "groups_gzip", "pages_none", "int96", "empty", "delta",
                           "delta_long", "blocks", "direct_v1", "direct_v2"}) {
    CAPTURE(name);
    const std::string whole = fixture(name + std::string(".parquet"));
    CHECK(all_rows(whole, true) == all_rows(whole, false));
    for (int i = 0; i < 60; ++i) {
      CAPTURE(i);
      std::string damaged = whole;
      for (int change = 0; change < 1 + i % 3; ++change)
        damaged[4 + random() % (whole.size() / (1 + i % 2) - 12)] = static_cast<char>(random());
      CHECK(all_rows(damaged, true) == all_rows(damaged, false));
    }
  }
}

TEST_CASE("parquet: rows that are read by columns are those that are read cell by cell") {
  NoProgress silent;
  struct Task {
    const char *file, *target, *loss;
  };
  for (const auto& [name, target, loss] :
       {Task{"snappy", "i64", "mse"}, Task{"plain_v2_zstd", "i64", "softmax"}, Task{"groups_gzip", "id", "softmax"},
        Task{"pages_none", "u64", "mse"}, Task{"delta", "clock", "softmax"}, Task{"int96", "i64", "mse"},
        Task{"blocks", "wide", "mse"}, Task{"blocks", "class", "softmax"}, Task{"blocks", "yes", "binary"},
        Task{"blocks", "half", "huber"}}) {
    CAPTURE(name);
    CAPTURE(target);
    const std::string bytes = fixture(name + std::string(".parquet"));
    const RowFile columns{memory_source(bytes), TableKind::kParquet, "table"};
    const RowFile cells{memory_source(as_csv(bytes)), TableKind::kCsv, "table"};
    RowOptions options;
    options.targets = {target};
    options.loss = loss;
    options.missing = Missing::kIndicator;
    if (std::string_view(name) != "blocks") options.columns["none"] = ColumnKind::kIgnore;
    const RowSchema schema = fit_schema(columns, options);
    CHECK(schema == fit_schema(cells, options));
    const Rows got = read_rows(columns, schema, true, silent), want = read_rows(cells, schema, true, silent);
    CHECK(got.count == want.count);
    const auto same_bits = [](const auto& a, const auto& b) {
      return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]) == 0;
    };
    CHECK(same_bits(got.numbers, want.numbers));
    CHECK(got.codes == want.codes);
    CHECK(got.labels == want.labels);
    CHECK(got.targets == want.targets);
  }
}

TEST_CASE("parquet: rows over batches, pages and groups") {
  const std::unique_ptr<TableReader> reader = open_table(fixture("blocks.parquet"));
  CHECK(reader->declared_rows() == 2500);
  constexpr const char* kCities[] = {"Ulm", "Oslo", "NA", "Bonn"};
  const auto want = [&](std::int64_t i) {
    const Json none;
    return Json{{"i", i % 11 == 3 ? none : Json((i * 7919) % 1000 - 500)},
                {"wide", i * i * 1000003},
                {"f", i % 700 > 600 || i % 13 == 5 ? none : Json(static_cast<double>(i) * 0.37)},
                {"half", static_cast<double>(i) / 8},
                {"city", i % 17 == 2 ? none : Json(kCities[i % 4])},
                {"yes", i % 3 == 0},
                {"class", i % 7}};
  };
  for (std::int64_t i = 0; i < 2500; ++i) REQUIRE(read_row(*reader) == want(i));
  Row row;
  CHECK_FALSE(reader->next(row));
  for (const std::int64_t at : {1023, 1024, 1099, 1100, 2499, 0, 777}) {
    reader->seek(static_cast<std::uint64_t>(at));
    CHECK(read_row(*reader) == want(at));
  }
}

namespace {

// Bytes in memory that are read as those of the store are: whole pages at once.
class StoredBytes final : public Source {
 public:
  explicit StoredBytes(std::string bytes) : bytes_(std::move(bytes)) {}
  std::size_t read_at(std::uint64_t offset, void* data, std::size_t count) const override {
    return offset < bytes_.size() ? bytes_.copy(static_cast<char*>(data), count, offset) : 0;
  }

 private:
  std::string bytes_;
};

}  // namespace

TEST_CASE("parquet: plain numbers that are read when they are wanted are those of whole pages, in damaged files too") {
  std::mt19937 random(4);
  for (const char* name : {"direct_v1", "direct_v2"}) {
    CAPTURE(name);
    const std::string whole = fixture(name + std::string(".parquet"));
    for (int i = 0; i < 100; ++i) {
      CAPTURE(i);
      std::string bytes = whole;
      for (int change = 0; change < i % 3; ++change)
        bytes[4 + random() % (bytes.size() / (1 + i % 2) - 12)] = static_cast<char>(random());
      const auto text_of_source = [&](std::unique_ptr<Source> source) {
        std::string text, buffer;
        try {
          const std::unique_ptr<TableReader> reader = read_table(std::move(source), TableKind::kParquet);
          for (Row row; reader->next(row); text += "\n")
            for (const Cell& cell : row.cells) text += std::string(text_of(cell, buffer)) + "|";
        } catch (const Error& error) {
          return text + error.message;
        }
        return text;
      };
      const std::string text = text_of_source(memory_source(bytes)());
      CHECK(text == text_of_source(std::make_unique<StoredBytes>(bytes)));
      if (i == 0) CHECK(std::ranges::count(text, '\n') == 2500);
    }
    const std::unique_ptr<TableReader> reader = open_table(whole), blocks = open_table(fixture("blocks.parquet"));
    for (const std::uint64_t at : {0, 1, 89, 1099, 1100, 2499, 777}) {
      reader->seek(at), blocks->seek(at);
      const Json row = read_row(*reader), want = read_row(*blocks);
      CHECK(row["wide"] == want["wide"]);
      CHECK(row["f"] == want["f"]);
    }
  }
}

TEST_CASE("parquet: of several bad values the one in the first row is told") {
  NoProgress silent;
  const std::string bytes = fixture("blocks.parquet");
  const RowFile file{memory_source(bytes), TableKind::kParquet, "table"};
  RowSchema schema;
  schema.features = {{"wide"}, {"f"}, {"i"}, {"half"}};
  const auto outcome = [&] {
    try {
      return std::to_string(read_rows(file, schema, false, silent).count);
    } catch (const Error& error) {
      return error.message;
    }
  };
  CHECK(outcome() == "table: row 4: column 'i' has no value");  // row 6 lacks f
  schema.features.pop_back();
  schema.features[2] = {"city", {"Bonn", "Oslo"}};
  CHECK(outcome() == "table: row 3: column 'city' has no value");
  schema.impute = true;
  CHECK(outcome() == "2500");
  schema.features[1] = {"yes"};
  CHECK(outcome() == "table: row 1: column 'yes': 'true' is not a number, unlike the column in the training split");
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

TEST_CASE("parquet: packed numbers of every width, read in pieces of any length, to the last byte") {
  std::mt19937 random(5);
  for (unsigned width = 0; width <= 32; ++width) {
    CAPTURE(width);
    const std::size_t groups = 1 + random() % 40;
    Bytes page(1 + groups * width);
    page[0] = static_cast<std::uint8_t>(groups << 1 | 1);  // one run of groups
    for (std::size_t i = 1; i < page.size(); ++i) page[i] = static_cast<std::uint8_t>(random());
    const auto number = [&](std::size_t index) {
      std::uint32_t value = 0;
      for (std::size_t bit = 0; bit < width; ++bit) {
        const std::size_t at = 8 + index * width + bit;
        value |= static_cast<std::uint32_t>(page[at / 8] >> at % 8 & 1) << bit;
      }
      return value;
    };
    formats::ParquetRuns runs(page, static_cast<int>(width));
    for (std::size_t next = 0; next < 8 * groups;) {
      std::vector<std::uint32_t> piece(std::min<std::size_t>(1 + random() % 50, 8 * groups - next));
      runs.read(piece);
      for (const std::uint32_t value : piece) REQUIRE(value == number(next++));
    }
    std::uint32_t none = 0;
    CHECK_THROWS_AS(runs.read({&none, 1}), Error);
  }
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

TEST_CASE("snappy: long sequences of literals and copies, read in blocks far from the ends") {
  std::mt19937 random(3);
  std::string expected, elements;
  const auto add = [&](std::size_t value, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) elements.push_back(static_cast<char>(value >> 8 * i));
  };
  while (expected.size() < 20000) {
    if (expected.empty() || random() % 2 == 0) {
      const std::size_t count = 1 + random() % (random() % 8 == 0 ? 300 : 20);
      const bool sized = count > 60;
      add((sized ? 61 : count - 1) << 2, 1);
      if (sized) add(count - 1, 2);
      for (std::size_t i = 0; i < count; ++i) expected.push_back(static_cast<char>(random()));
      elements += expected.substr(expected.size() - count);
      continue;
    }
    const std::size_t offset = 1 + random() % std::min<std::size_t>(expected.size(), random() % 2 ? 20 : 2000);
    const bool two = random() % 2 != 0;
    const std::size_t count = two ? 1 + random() % 64 : 4 + random() % 8;
    if (two) {
      add((count - 1) << 2 | 2, 1), add(offset, 2);
    } else {
      add(offset >> 8 << 5 | (count - 4) << 2 | 1, 1), add(offset, 1);
    }
    for (std::size_t i = 0; i < count; ++i) expected.push_back(expected[expected.size() - offset]);
  }
  std::string packed;
  for (std::size_t size = expected.size(); size > 0; size >>= 7)
    packed.push_back(static_cast<char>((size & 127) | (size > 127 ? 128 : 0)));
  packed += elements;
  Bytes plain(expected.size());
  formats::unpack_snappy(as_bytes(packed), plain);
  CHECK(as_text(plain) == expected);
  for (std::size_t size = 0; size < packed.size(); size += 97)
    CHECK_THROWS_AS(formats::unpack_snappy(as_bytes(packed.substr(0, size)), plain), Error);
}
