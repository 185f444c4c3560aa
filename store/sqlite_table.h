// The one table of a SQLite file that somebody else made, row by row. Used by the reader of such tables as data.
//
// The file is not believed: its bytes are copied into memory and opened for reading alone, in SQLite's defensive mode,
// without views, triggers and functions that a schema may not call, and with limits. No file is opened or written.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace mlx::store {

class SqliteTable {
 public:
  enum class Type : std::uint8_t { kNull, kInteger, kReal, kText, kBlob };

  // kCorrupt if the bytes are no database, or a damaged one; kUsage if it does not have exactly one table.
  explicit SqliteTable(ByteView file);
  ~SqliteTable();
  SqliteTable(const SqliteTable&) = delete;
  SqliteTable& operator=(const SqliteTable&) = delete;

  const std::vector<std::string>& columns() const { return columns_; }
  void seek(std::uint64_t row);  // the next one is this, counted from 0 in the table's own order
  bool next();                   // false at the end; kCorrupt
  // Of the row that next() has read.
  Type type(int column) const;
  std::int64_t integer(int column) const;
  double real(int column) const;
  std::string_view text(int column) const;  // until the next row is read

 private:
  struct Handles;
  std::unique_ptr<Handles> handles_;
  std::vector<std::string> columns_;
};

}  // namespace mlx::store
