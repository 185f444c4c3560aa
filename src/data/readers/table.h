// Tables in files, read row by row. Used by the reader of rows and by diffs. table_format.h lists the formats.
//
// A CSV file's first line is its header if its cells are distinct, not empty, and neither numbers nor booleans (the
// first may be empty, as data frames write their index). Otherwise columns are named 1, 2, 3 …, and no_header() tells
// why. Cells of .csv end at commas. If commas do not cut the first lines into equally many cells, a semicolon, tab or
// bar that does is used instead; with semicolons, 1,5 means 1.5. Text that is not UTF-8 is read as Latin-1 (as
// Windows-1252). Cells of JSON lines hold canonical JSON, so the order of keys and white space do not matter. Rows are
// at most 16 MiB long. Anything else is kCorrupt with its line.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/readers/source.h"

namespace mlx::data {

constexpr std::size_t kMostColumns = 16384;

// The key of a format in the table of formats (table_format.h).
enum class TableKind : std::uint8_t { kCsv, kTsv, kJsonLines, kNpy, kNpz, kSafetensors, kParquet, kSqlite };

enum class ValueType : std::uint8_t { kNull, kBool, kInt, kFloat, kText, kList, kObject, kMixed };
const char* name_of(ValueType type);  // "int", "text" …
// The type that holds values of both types. The fallback is mixed for JSON lines, text for all others.
ValueType join(ValueType a, ValueType b, TableKind kind);
// The type of a cell as it is written in a text format.
ValueType type_of(std::string_view cell, TableKind kind);
// The cell without spaces and tabs around it.
std::string_view trimmed(std::string_view cell);
// True if a trimmed cell means that there is no value: empty, "-", or NA, N/A, null, nan in any case.
bool is_missing(std::string_view cell);

// Text formats deliver cells as they are written. Formats with types deliver values.
struct Cell {
  enum class Form : std::uint8_t { kWritten, kNull, kBool, kInt, kFloat, kText };

  std::uint32_t column = 0;  // index into columns()
  std::string_view text;     // of kWritten, kBool ("true", "false") and kText, until the next row is read
  Form form = Form::kWritten;
  bool padded = false;  // the 8 bytes after `text` may be read; they mean nothing
  union {
    std::int64_t integer = 0;  // of kInt
    double number;             // of kFloat
  };
};
ValueType type_of(const Cell& cell, TableKind kind);
// The cell for people and for comparisons: a number in its shortest form, written to `buffer`; "" for kNull.
std::string_view text_of(const Cell& cell, std::string& buffer);

struct Row {
  std::uint64_t offset = 0;  // where it begins: of the plain text, or the row's number in formats with types
  std::vector<Cell> cells;
};

// The values of one column in rows that follow each other: all integers, all floats, or cells. Of these three one is
// set. What it points to lives until the next rows are read.
struct ColumnBlock {
  const std::int64_t* integers = nullptr;
  const std::uint8_t* present = nullptr;  // of integers: 0 in rows without a value; null if all have one
  const double* floats = nullptr;         // NaN in rows without a value
  const Cell* cells = nullptr;
  const std::uint32_t* codes = nullptr;  // a row's cell is cells[codes[row]]; null: cells[row]
  std::size_t count = 0;                 // of the cells that codes point to
  std::uint64_t dictionary = 0;          // another number if those cells are others

  Cell cell(std::size_t row) const;  // its column is not set
};

// Rows that a reader decodes at once: a second level cache holds their values.
constexpr std::size_t rows_of_block(std::size_t columns) {
  constexpr std::size_t kValues = 32 << 10, kLeast = 64, kMost = 1024;
  return std::clamp(kValues / std::max<std::size_t>(columns, 1), kLeast, kMost);
}

struct RowBlock {
  std::uint64_t offset = 0;  // of the first row; those of the others follow
  std::size_t rows = 0;
  std::vector<ColumnBlock> columns;  // as columns() has them
};

class TableReader {
 public:
  virtual ~TableReader() = default;
  // False at the end. Empty lines are skipped.
  virtual bool next(Row& row) = 0;
  // True if the format stores columns of typed values, which next_block() hands out faster than next() does.
  virtual bool has_blocks() const { return false; }
  // The next rows, at least one; false at the end. A row that cannot be read is an error when it is the first one, so
  // that all rows before it have been handed out, as by next().
  virtual bool next_block(RowBlock&) { return false; }
  // Continues with the row that begins at `offset`.
  virtual void seek(std::uint64_t offset) = 0;
  // Known from the beginning, except for JSON lines, where they are in the order in which keys appeared.
  virtual const std::vector<std::string>& columns() const = 0;
  // If columns have no names: why the first line is not a header; else "".
  virtual std::string no_header() const { return {}; }
  // Guesses about the rows read so far that may be wrong: "cells end at ';'"; else "".
  virtual std::string found_out() const { return {}; }
  // What the file says without being read, which may be wrong.
  virtual std::optional<std::uint64_t> declared_rows() const { return std::nullopt; }
};
// The source's bytes are plain: neither compressed nor UTF-16 (table_format.h). `table`: which of the file's tables; ""
// for the only one. kUsage if the format has no names of tables.
std::unique_ptr<TableReader> read_table(std::unique_ptr<Source> source, TableKind kind, const std::string& table = {});

// The line number (from 1) of each offset, or the number of its row in formats without lines; `offsets` are ascending.
std::vector<std::uint64_t> lines_of(const Source& source, const std::vector<std::uint64_t>& offsets,
                                    TableKind kind = TableKind::kCsv);

}  // namespace mlx::data
