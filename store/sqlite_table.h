// One table of a SQLite file that somebody else made, row by row. Used by the reader of such tables as data.
//
// The file is not believed: it is opened in memory for reading alone, in SQLite's defensive mode and without views,
// triggers, virtual tables and generated columns, so that no expression of its schema is evaluated. Limits hold for the
// work of a row, and for rows and bytes altogether, so that pages that lie in several places of a tree end in an error.
// No file is opened or written.
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

  // Keeps the file's bytes and copies none. `table`: its name in any case; "" for the only one. kCorrupt if the bytes
  // are no database, or a damaged one; kNotFound if it has no such table; kUsage if it must be named. Both list tables.
  SqliteTable(Bytes file, const std::string& table);
  ~SqliteTable();
  SqliteTable(const SqliteTable&) = delete;
  SqliteTable& operator=(const SqliteTable&) = delete;

  const std::vector<std::string>& columns() const { return columns_; }
  const std::vector<std::string>& generated() const { return generated_; }  // columns that are left out
  // The next one is this, counted from 0: in the order of rowids, or of the primary key of a table WITHOUT ROWID. Steps
  // over the rows between; backwards from the last of the places that are kept every kBookmark rows, or without rowids
  // from the beginning.
  void seek(std::uint64_t row);
  bool next();  // false at the end, again and again; kCorrupt
  // Of the row that next() has read.
  Type type(int column) const;
  std::int64_t integer(int column) const;
  double real(int column) const;
  std::string_view text(int column) const;  // until the next row is read

  static constexpr std::uint64_t kBookmark = 4096;  // rows

 private:
  struct Handles;
  void find_columns(const std::string& table);
  void prepare_rows(const std::string& table);
  void restart(std::uint64_t row);
  void check_row();

  std::unique_ptr<Handles> handles_;
  std::vector<std::string> columns_, generated_;
  std::string rowid_;                    // its name; "" if the table has none, or hides it
  std::uint64_t row_ = 0, bytes_ = 0;    // row_: the next one; bytes_: of text and blobs since the last restart
  std::vector<std::int64_t> bookmarks_;  // rowids of the rows 0, kBookmark, 2 kBookmark …
  std::int64_t last_rowid_ = 0;
  bool any_ = false, ended_ = false;  // any_: last_rowid_ is that of the row before
};

}  // namespace mlx::store
