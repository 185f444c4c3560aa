// Differences between two tables: columns, rows and cells. Used by diff_files.
//
// With key columns, rows with the same key are the same row; without, rows are compared as a multiset of their
// contents. A column that every row of one side has and no row of the other is an added or removed column, and is not
// compared row by row. Both files are streamed. Memory is bounded by RowOptions::memory, whatever their size (with many
// rows, several passes are made), and by the limit on shown rows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "diff/readers.h"

namespace mlx::diff {

struct RowOptions {
  std::vector<std::string> key;  // names of columns; none: by content
  std::size_t limit = 10;        // rows of each kind that are shown
  std::size_t memory = std::size_t{512} << 20;
};

struct ColumnChange {
  enum class Kind { kAdded, kRemoved, kRetyped } kind = Kind::kAdded;
  std::string name;
  ValueType before = ValueType::kNull, after = ValueType::kNull;  // of the side that has it
};

using NamedCells = std::vector<std::pair<std::string, std::string>>;

struct ShownRow {
  std::uint64_t line = 0;
  NamedCells cells;
};

struct CellChange {
  std::string column;
  std::optional<std::string> before, after;  // nullopt: the row has no such key (JSON lines)
};

struct ChangedRow {
  std::uint64_t line_before = 0, line_after = 0;
  NamedCells key;
  std::vector<CellChange> cells;
};

struct DoubledKey {
  bool after = false;  // which side
  std::uint64_t line = 0;
  NamedCells key;
};

struct RowDiff {
  std::uint64_t rows_before = 0, rows_after = 0;
  std::uint64_t added = 0, removed = 0, changed = 0;
  std::vector<ColumnChange> columns;
  bool columns_moved = false;                      // the shared columns are in another order
  std::vector<ShownRow> added_rows, removed_rows;  // the first of each, by line
  std::vector<ChangedRow> changed_rows;
  // How many cells of each column changed, most first; empty if more than kMostCounted did.
  std::optional<std::vector<std::pair<std::string, std::uint64_t>>> changed_cells;
  std::uint64_t doubled_before = 0, doubled_after = 0;  // rows with the key of an earlier row
  std::vector<DoubledKey> doubled;                      // the first of them
  std::vector<std::string> missing_key;  // key columns that a side lacks: rows are then compared by content
  bool by_key = false;

  bool same_rows() const { return added + removed + changed == 0; }
};
inline constexpr std::uint64_t kMostCounted = 16'000'000;  // columns times changed rows

struct TableFile {
  OpenSource open;  // inflated
  TableKind kind = TableKind::kCsv;
};

// kCorrupt if one of the two is not a table: "before: line 12: 3 cells, 4 columns".
RowDiff diff_rows(const TableFile& before, const TableFile& after, const RowOptions& options, Pool& pool);

}  // namespace mlx::diff
