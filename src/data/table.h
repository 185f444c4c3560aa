// Tables in files, row by row: CSV and TSV (RFC 4180) and JSON lines. Used by the reader of rows and by diffs.
//
// A CSV file's first line is its header where its cells are distinct, not empty and no numbers or booleans (the first
// may be empty, as data frames write their index); otherwise columns are called 1, 2, 3 …, and no_header() says why.
// Cells of .csv end at a comma, or at the semicolon, tab or bar that cuts the first lines into equally many cells where
// commas do not; between semicolons 1,5 is 1.5. What is not UTF-8 is taken for Latin-1 (as Windows-1252). Cells of JSON
// lines hold canonical JSON, so that the order of keys and white space do not matter. Rows are at most 16 MiB long;
// what is no table is kCorrupt with its line.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/source.h"

namespace mlx::data {

constexpr std::size_t kMostColumns = 16384;

enum class TableKind { kCsv, kTsv, kJsonLines };
// By the name: .csv, .tsv, .jsonl, .ndjson, each with or without .gz.
std::optional<TableKind> table_kind(std::string_view path);

enum class ValueType : std::uint8_t { kNull, kBool, kInt, kFloat, kText, kList, kObject, kMixed };
const char* name_of(ValueType type);  // "int", "text" …
// What holds values of both types. Text is what CSV falls back to, mixed what JSON lines do.
ValueType join(ValueType a, ValueType b, TableKind kind);
ValueType type_of(std::string_view cell, TableKind kind);
// Without spaces and tabs around it.
std::string_view trimmed(std::string_view cell);
// Whether a trimmed cell says that there is no value: empty, "-", or NA, N/A, null, nan, of any case.
bool is_missing(std::string_view cell);

struct Cell {
  std::uint32_t column = 0;  // index into columns()
  std::string_view text;     // until the next row is read
};

struct Row {
  std::uint64_t offset = 0;  // where it begins (of the inflated bytes)
  std::vector<Cell> cells;
};

class TableReader {
 public:
  virtual ~TableReader() = default;
  // False at the end. Empty lines are skipped.
  virtual bool next(Row& row) = 0;
  // Goes on with the row that begins at `offset`.
  virtual void seek(std::uint64_t offset) = 0;
  // Of a CSV file known from the beginning; of JSON lines in the order in which keys appeared.
  virtual const std::vector<std::string>& columns() const = 0;
  // Of a table whose columns have no names: why its first line is no header, else "".
  virtual std::string no_header() const { return {}; }
  // What was found out by itself and can be wrong, of what was read so far: "cells end at ';'"; else "".
  virtual std::string found_out() const { return {}; }
};
std::unique_ptr<TableReader> read_table(std::unique_ptr<Source> source, TableKind kind);
// `separator` 0: found out.
std::unique_ptr<TableReader> read_csv(std::unique_ptr<Source> source, char separator);
std::unique_ptr<TableReader> read_json_lines(std::unique_ptr<Source> source);

// The line (from 1) of each offset; `offsets` ascend.
std::vector<std::uint64_t> lines_of(const Source& source, const std::vector<std::uint64_t>& offsets);

}  // namespace mlx::data
