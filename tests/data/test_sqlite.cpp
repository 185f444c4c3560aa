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

std::unique_ptr<TableReader> open_database(const std::string& bytes) {
  const FoundTable found = find_table(memory_source(bytes), "table");  // by its content
  return read_table(found.open(), found.kind);
}

std::string database_shown(const std::string& bytes, std::uint64_t from = 0) {
  try {
    const std::unique_ptr<TableReader> reader = open_database(bytes);
    std::string text, buffer;
    for (const std::string& column : reader->columns()) text += column + "|";
    if (from > 0) reader->seek(from);
    for (Row row; reader->next(row);) {
      text += "\n" + std::to_string(row.offset) + ":";
      for (const Cell& cell : row.cells) text += std::string(text_of(cell, buffer)) + "|";
    }
    return text;
  } catch (const Error& error) {
    return "error: " + error.message;
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
  CHECK(database_shown(database_file("two.sqlite")) == "error: sqlite: a file of 2 tables, expected one: a, b");
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
