// diff_rows' two passes over a table: one finds the columns, one makes a record of each row. Used by diff_rows.
#pragma once

#include <string>
#include <vector>

#include "diff/readers.h"
#include "diff/row_hash.h"

namespace mlx::diff {

struct Column {
  std::string name;
  ValueType type = ValueType::kNull;
  std::uint64_t present = 0;  // rows that have it
};

struct TableShape {
  std::vector<Column> columns;  // in the table's order
  std::uint64_t rows = 0;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  const Column* find(std::string_view name) const;
};
TableShape scan_table(const OpenSource& open, TableKind kind);

// Which columns make a row's key and which its content, with a hash key for each name.
struct RowPlan {
  std::vector<std::string> key;      // empty: the content is the key
  std::vector<std::string> ignored;  // columns that are not compared
  Hash128 secret;                    // one for both sides
};

struct RowRecord {
  Hash128 key;
  std::uint64_t content = 0;
  std::uint64_t offset = 0;
};

// The rows whose key falls into `part` of `parts`, sorted by key, then offset.
std::vector<RowRecord> scan_rows(const OpenSource& open, TableKind kind, const RowPlan& plan, std::uint64_t part,
                                 std::uint64_t parts);

}  // namespace mlx::diff
