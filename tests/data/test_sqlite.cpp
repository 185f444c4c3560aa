// SQLite files as tables: values, order and seeking; what a file may not do; damage.
#include <doctest/doctest.h>

#include <random>

#include "base/fd.h"
#include "data/readers/table_format.h"

using namespace mlx;
using namespace mlx::data;

namespace {

std::string database_file(const std::string& name) {
  return std::string(as_text(read_file(std::string(MLX_SOURCE_DIR) + "/tests/data/sqlite/" + name)));
}

std::unique_ptr<TableReader> open_database(const std::string& bytes, const std::string& table) {
  const FoundTable found = find_table(memory_source(bytes), "table");  // by its content
  return read_table(found.open(), found.kind, table);
}

std::string database_shown(const std::string& bytes, std::uint64_t from = 0, const std::string& table = {}) {
  try {
    const std::unique_ptr<TableReader> reader = open_database(bytes, table);
    std::string text, buffer;
    for (const std::string& column : reader->columns()) text += column + "|";
    if (from > 0) reader->seek(from);
    for (Row row; reader->next(row);) {
      text += "\n" + std::to_string(row.offset) + ":";
      for (const Cell& cell : row.cells) text += std::string(text_of(cell, buffer)) + "|";
    }
    return text;
  } catch (const Error& error) {
    return "error: " + error.message + (table.empty() ? "" : "; " + error.hint);
  }
}

}  // namespace

TEST_CASE("sqlite: the rows of the only table, in its own order, also of a file in WAL mode") {
  const std::string last = "\n2:-5|0.25|Zürich|";
  CHECK(database_shown(database_file("one.sqlite")) == "n|x|city \"s|\n0:9|1.5|Oslo|\n1:1|||" + last);
  CHECK(database_shown(database_file("one.sqlite"), 2) == "n|x|city \"s|" + last);
  CHECK(database_shown(database_file("one.sqlite"), 7) == "n|x|city \"s|");
}

TEST_CASE("sqlite: files that are no table, and damaged ones, are errors") {
  CHECK(database_shown(database_file("two.sqlite")) == "error: sqlite: a file of 2 tables; it has: a, b");
  CHECK(database_shown(database_file("blob.sqlite")) == "error: row 1: column 'b': neither a number nor text");
  CHECK(database_shown(std::string("SQLite format 3\0", 16)) == "error: sqlite: file is not a database");
  const std::string whole = database_file("one.sqlite");
  CHECK(database_shown(whole.substr(0, 4096)) == "error: sqlite: database disk image is malformed");
  std::mt19937 random(3);
  for (int i = 0; i < 600; ++i) {
    std::string damaged = whole;
    for (int change = 0; change < 1 + i % 4; ++change)
      damaged[16 + random() % (i % 2 ? 200 : whole.size() - 16)] = static_cast<char>(random());
    (void)database_shown(damaged);
  }
}

TEST_CASE("sqlite: one of several tables by its name") {
  const std::string two = database_file("two.sqlite");
  CHECK(database_shown(two, 0, "B") == "x|");
  CHECK(database_shown(two, 0, "c\x1b") == "error: sqlite: there is no table 'c?'; it has: a, b");
  const FoundTable csv = find_table(memory_source("a,b\n1,2\n"), "t.csv");
  CHECK_THROWS_WITH(read_table(csv.open(), csv.kind, "a"),
                    "CSV files have no tables with names: 'table' is for SQLite");
}

TEST_CASE("sqlite: generated columns are left out, tables WITHOUT ROWID are in the order of their key") {
  const std::string kinds = database_file("kinds.sqlite");
  CHECK(database_shown(kinds, 0, "plain") == "rowid|n|\n0:a|1|\n1:b|2|");
  CHECK(open_database(kinds, "plain")->found_out() == "left out as generated: twice");
  CHECK(database_shown(kinds, 0, "keyed") == "k|n|\n0:c|3|\n1:m|13|\n2:z|26|");
  CHECK(database_shown(kinds, 2, "keyed") == "k|n|\n2:z|26|");
  CHECK(
      database_shown(kinds, 0, "words").starts_with("error: sqlite: there is no table 'words'; it has: keyed, plain"));
}

TEST_CASE("sqlite: seeking forwards, backwards and beyond the end, over the places that are kept") {
  const std::unique_ptr<TableReader> reader = open_database(database_file("long.sqlite"), "");
  Row row;
  for (const std::uint64_t to : {8999u, 5u, 4096u, 4095u, 8192u, 8191u, 0u, 8998u, 4097u}) {
    reader->seek(to);
    REQUIRE(reader->next(row));
    CHECK(row.offset == to);
    CHECK(row.cells.at(0).integer == static_cast<std::int64_t>(to));
  }
  reader->seek(9000);
  CHECK_FALSE(reader->next(row));
  CHECK_FALSE(reader->next(row));
  reader->seek(1);
  CHECK(reader->next(row));
}

// The root of the table is an interior page (type 5), whose cells begin with the number of a child.
TEST_CASE("sqlite: a tree that leads to a page twice ends in an error") {
  std::string file = database_file("long.sqlite");
  const std::size_t page = 512, root = page;
  REQUIRE(file.at(root) == 5);
  const auto cell = [&](std::size_t i) {
    return root + static_cast<std::uint8_t>(file[root + 12 + 2 * i]) * 256u +
           static_cast<std::uint8_t>(file[root + 13 + 2 * i]);
  };
  file.replace(cell(1), 4, file.substr(cell(0), 4));
  CHECK(database_shown(file).find("error: ") == 0);
}
