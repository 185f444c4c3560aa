// Tables in files, row by row: CSV and TSV (RFC 4180) and JSON lines. Used by the reader of rows and by diffs.
//
// A CSV file's first line is its header where its cells are distinct, not empty and no numbers or booleans; otherwise
// columns are called 1, 2, 3 …. Cells of JSON lines hold canonical JSON, so that the order of keys and white space do
// not matter. Rows are at most 16 MiB long; what is no table is kCorrupt with its line.
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
};
std::unique_ptr<TableReader> read_table(std::unique_ptr<Source> source, TableKind kind);
std::unique_ptr<TableReader> read_csv(std::unique_ptr<Source> source, char separator);
std::unique_ptr<TableReader> read_json_lines(std::unique_ptr<Source> source);

// The line (from 1) of each offset; `offsets` ascend.
std::vector<std::uint64_t> lines_of(const Source& source, const std::vector<std::uint64_t>& offsets);

}  // namespace mlx::data
