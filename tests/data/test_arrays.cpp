// Arrays that NumPy wrote (tests/data/arrays/make_arrays.py): npz, stored and deflated; Fortran's order; damage.
// Tensors that safetensors wrote.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "base/fd.h"
#include "data/readers/table_format.h"
#include "formats/safetensors.h"

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

// A file of F64 tensors whose elements count up.
std::string tensors_of(const std::vector<std::pair<std::string, std::vector<std::int64_t>>>& tensors) {
  std::vector<formats::SafetensorsEntry> entries;
  entries.reserve(tensors.size());
  for (const auto& [name, shape] : tensors) entries.push_back({name, "F64", shape, 0, 0});
  std::string file(as_text(formats::encode_safetensors_header(entries)));
  for (const formats::SafetensorsEntry& entry : entries)
    for (std::uint64_t i = 0; i < (entry.end - entry.begin) / 8; ++i) {
      const auto number = static_cast<double>(i);
      file.append(reinterpret_cast<const char*>(&number), sizeof number);
    }
  return file;
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

namespace {

// All that a reader says of its rows, to the end or to an error: by blocks, or by rows.
std::string all_cells(const std::string& bytes, bool by_blocks) {
  std::string text, buffer;
  const auto add = [&](const Cell& cell) {
    text += std::to_string(static_cast<int>(cell.form)) + std::string(text_of(cell, buffer)) + "|";
  };
  try {
    const std::unique_ptr<TableReader> reader = open_arrays(bytes);
    REQUIRE(reader->has_blocks());
    for (Row row; !by_blocks && reader->next(row); text += "\n")
      for (const Cell& cell : row.cells) add(cell);
    for (RowBlock block; by_blocks && reader->next_block(block);) {
      CHECK(block.rows > 0);
      CHECK(block.columns.size() == reader->columns().size());
      for (std::size_t row = 0; row < block.rows; ++row, text += "\n")
        for (const ColumnBlock& column : block.columns) add(column.cell(row));
    }
  } catch (const Error& error) {
    return text + error.message;
  }
  return text;
}

// An array of rows of three elements.
std::string npy_of(const char* descr, bool fortran, std::size_t rows, std::string_view elements) {
  std::string head = fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': ({}, 3), }}\n", descr,
                                 fortran ? "True" : "False", rows);
  const std::string size = {static_cast<char>(head.size()), 0};
  return std::string("\x93NUMPY\x01\x00", 8) + size + head + std::string(elements);
}

}  // namespace

TEST_CASE("arrays: blocks have the cells of rows, of all types, in damaged files too") {
  std::mt19937 random(6);
  constexpr std::size_t kRows = 1500;
  std::string elements;
  while (elements.size() < kRows * 3 * 8) elements.push_back(static_cast<char>(random()));
  for (const char* descr : {"|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"}) {
    const auto size = static_cast<std::size_t>(descr[2] - '0');
    for (const bool fortran : {false, true}) {
      CAPTURE(descr);
      CAPTURE(fortran);
      const std::string whole = npy_of(descr, fortran, kRows, std::string_view(elements).substr(0, kRows * 3 * size));
      const std::string cells = all_cells(whole, false);
      CHECK(std::ranges::count(cells, '\n') == kRows);
      CHECK(all_cells(whole, true) == cells);
      const std::string cut_off = whole.substr(0, whole.size() - size * (1 + random() % 3000));
      CHECK(all_cells(cut_off, true) == all_cells(cut_off, false));
    }
  }
  for (const char* name : {"stored.npz", "deflated.npz", "fortran.npy", "tensors.safetensors"}) {
    CAPTURE(name);
    const std::string whole = array_file(name);
    CHECK(all_cells(whole, true) == all_cells(whole, false));
    for (int i = 0; i < 100; ++i) {
      std::string damaged = whole;
      damaged[4 + random() % (whole.size() - 4)] = static_cast<char>(random());
      CHECK(all_cells(damaged, true) == all_cells(damaged, false));
    }
  }
  const std::string wide = array_file("long.npz");  // more than one block of each array
  CHECK(all_cells(wide, true) == all_cells(wide, false));
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

TEST_CASE("arrays: safetensors files of every type of numbers") {
  CHECK(arrays_shown(array_file("tensors.safetensors")) ==
        "far|y|wide|x.1|x.2|brain|half|yes|\n9223372036854775808|7|-2|0.5|-2|0.5|0.5|true|\n1|-8||1||1|1|false|\n"
        "2|9|4|3|4|3|3|true|\nleft out: 'tiny' (elements of type F8_E4M3, expected numbers), 'images' (an array of 3 "
        "dimensions, a table has one or two)");
  CHECK(arrays_shown(tensors_of({{"b", {2}}, {"a", {2, 3}}})) == "b|a.1|a.2|a.3|\n0|0|1|2|\n1|3|4|5|\n");
  CHECK(arrays_shown(tensors_of({{"none", {0}}})) == "none|\n");
}

TEST_CASE("arrays: tensors longer than a block are read side by side, from any row") {
  const std::string file = tensors_of({{"a", {70'000}}, {"b", {70'000, 2}}, {"c", {70'000}}});
  const std::unique_ptr<TableReader> reader = open_arrays(file);
  Row row;
  double count = 0;
  std::int64_t wrong = 0;
  for (; reader->next(row); ++count)
    wrong += row.cells[0].number != count || row.cells[1].number != 2 * count || row.cells[2].number != 2 * count + 1 ||
             row.cells[3].number != count;
  CHECK(count == 70'000);
  CHECK(wrong == 0);
  for (const std::uint64_t at : {69'999, 0, 40'000}) {
    reader->seek(at);
    REQUIRE(reader->next(row));
    CHECK(row.offset == at);
    CHECK(row.cells[2].number == static_cast<double>(2 * at + 1));
  }
}

TEST_CASE("arrays: tensors that are no table are said, and damage is an error") {
  CHECK(arrays_shown(tensors_of({{"x", {3}}, {"y", {2}}})) == "error: safetensors: array 'y' has 2 rows, 'x' has 3");
  CHECK(arrays_shown(tensors_of({{"x", {3, 1, 1}}})) ==
        "error: safetensors: no tensor of one or two dimensions of numbers is in it");
  CHECK(arrays_shown(tensors_of({{"x", {1, 16'000}}, {"y", {1, 385}}})) ==
        "error: safetensors: 16385 columns, more than a table may have");
  const std::string file = tensors_of({{"x", {3}}, {"y", {3}}});
  CHECK(arrays_shown(file.substr(0, file.size() - 1)).find("is not inside the file's 47 data bytes") !=
        std::string::npos);
  CHECK(arrays_shown(file + "!") == "error: safetensors: 1 bytes after the last tensor belong to none");
  std::mt19937 random(3);
  for (int i = 0; i < 500; ++i) {
    std::string damaged = file;
    for (int change = 0; change < 1 + i % 3; ++change) damaged[random() % file.size()] = static_cast<char>(random());
    (void)arrays_shown(damaged);
  }
}
