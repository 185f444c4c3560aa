// Arrays that NumPy wrote (tests/data/arrays/make_arrays.py): npz, stored and deflated; Fortran's order; damage.
#include <doctest/doctest.h>

#include <random>

#include "base/fd.h"
#include "data/readers/table_format.h"

using namespace mlx;
using namespace mlx::data;

namespace {

std::string array_file(const std::string& name) {
  return std::string(as_text(read_file(std::string(MLX_SOURCE_DIR) + "/tests/data/arrays/" + name)));
}

std::unique_ptr<TableReader> open_arrays(const std::string& bytes) {
  const FoundTable found = find_table(memory_source(bytes), "table");  // by its content
  return read_table(found.open(), found.kind);
}

std::string rest_of(TableReader& reader) {
  std::string text, buffer;
  for (Row row; reader.next(row); text += "\n")
    for (const Cell& cell : row.cells) text += std::string(text_of(cell, buffer)) + "|";
  return text;
}

std::string arrays_shown(const std::string& bytes) {
  try {
    const std::unique_ptr<TableReader> reader = open_arrays(bytes);
    std::string text;
    for (const std::string& column : reader->columns()) text += column + "|";
    text += "\n" + rest_of(*reader);
    return text + reader->found_out();
  } catch (const Error& error) {
    return "error: " + error.message;
  }
}

}  // namespace

TEST_CASE("arrays: npz files, stored and deflated, in both orders") {
  const std::string rows = "x.1|x.2|y|\n0|0.25|7|\n0.5|0.75|-8|\n1|1.25|9|\n";
  CHECK(arrays_shown(array_file("stored.npz")) ==
        rows + "left out: 'words' (elements of type '<U1', expected little-endian numbers)");
  CHECK(arrays_shown(array_file("deflated.npz")) ==
        rows + "left out: 'images' (an array of 3 dimensions, a table has one or two)");
}

TEST_CASE("bug: arrays: an npy file in Fortran's order is a table") {
  const std::string rows = "0|1|2|\n3|4|5|\n6|7|8|\n9|10|11|\n";
  CHECK(arrays_shown(array_file("fortran.npy")) == "1|2|3|\n" + rows);
  const std::unique_ptr<TableReader> reader = open_arrays(array_file("fortran.npy"));
  reader->seek(2);
  CHECK(rest_of(*reader) == rows.substr(rows.find('6')));
  reader->seek(0);
  CHECK(rest_of(*reader) == rows);
}

TEST_CASE("arrays: columns of more than one block are read block by block") {
  const std::unique_ptr<TableReader> reader = open_arrays(array_file("long.npz"));
  Row row;
  std::int64_t count = 0, wrong = 0;
  for (; reader->next(row); ++count)
    for (const Cell& cell : row.cells) wrong += cell.number != static_cast<double>(count);
  CHECK(count == 3000);
  CHECK(wrong == 0);
  for (const std::uint64_t at : {2999, 3, 2700}) {
    reader->seek(at);
    REQUIRE(reader->next(row));
    CHECK(row.cells[399].number == static_cast<double>(at));
  }
}

TEST_CASE("arrays: what is no table is said, and damage is an error, never memory") {
  CHECK(arrays_shown(array_file("unequal.npz")) == "error: npz: array 'y' has 2 rows, 'x' has 3");
  CHECK(arrays_shown(array_file("words.npz")) == "error: npz: no array of one or two dimensions of numbers is in it");
  CHECK(arrays_shown("PK\3\4") == "error: zip: the file has no directory");
  const std::string fortran = array_file("fortran.npy");
  CHECK(arrays_shown(fortran.substr(0, fortran.size() - 1)) ==
        "error: row 1: the file is cut off, 4 rows are declared");
  std::mt19937 random(2);
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    const std::string bytes = array_file(name);
    CHECK(arrays_shown(bytes.substr(0, bytes.size() - 1)) == "error: zip: the file has no directory");
    for (int i = 0; i < 500; ++i) {
      std::string damaged = bytes;
      for (int change = 0; change < 1 + i % 3; ++change)
        damaged[4 + random() % (bytes.size() - 4)] = static_cast<char>(random());
      (void)arrays_shown(damaged);
    }
  }
}
