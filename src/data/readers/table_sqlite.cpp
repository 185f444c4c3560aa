// One table of a SQLite file. The file is in memory as a whole, because SQLite reads it out of order.
#include <utility>

#include "base/error.h"
#include "data/readers/table_format.h"
#include "store/sqlite_table.h"

namespace mlx::data {
namespace {

constexpr std::uint64_t kLargestDatabase = std::uint64_t{1} << 30;

Bytes read_database(const Source& source) {
  const std::uint64_t size = source.size();
  if (size > kLargestDatabase)
    throw Error(ErrorKind::kUsage, "sqlite: a file of more than 1 GiB",
                "write its table as Parquet or CSV, which are read in pieces");
  Bytes bytes(static_cast<std::size_t>(size));
  bytes.resize(source.read_at(0, bytes.data(), bytes.size()));
  return bytes;
}

class SqliteReader final : public TableReader {
 public:
  SqliteReader(const Source& source, const std::string& table) : table_(read_database(source), table) {}

  bool next(Row& row) override {
    if (!table_.next()) return false;
    row.offset = row_++;
    row.cells.resize(table_.columns().size());
    for (std::size_t i = 0; i < row.cells.size(); ++i) {
      row.cells[i].column = static_cast<std::uint32_t>(i);
      read_cell(row.cells[i], static_cast<int>(i));
    }
    return true;
  }

  void seek(std::uint64_t offset) override {
    table_.seek(offset);
    row_ = offset;
  }
  const std::vector<std::string>& columns() const override { return table_.columns(); }
  std::string found_out() const override {
    std::string names;
    for (const std::string& name : table_.generated()) names += (names.empty() ? "" : ", ") + name;
    return names.empty() ? "" : "left out as generated: " + names;
  }

 private:
  void read_cell(Cell& cell, int column) const {
    switch (table_.type(column)) {
      case store::SqliteTable::Type::kInteger:
        cell.form = Cell::Form::kInt;
        cell.integer = table_.integer(column);
        return;
      case store::SqliteTable::Type::kReal:
        cell.form = Cell::Form::kFloat;
        cell.number = table_.real(column);
        return;
      case store::SqliteTable::Type::kText:
        cell.form = Cell::Form::kText;
        cell.text = table_.text(column);
        if (is_utf8(cell.text)) return;
        break;
      case store::SqliteTable::Type::kBlob:
        break;
      case store::SqliteTable::Type::kNull:
        cell.form = Cell::Form::kNull;
        cell.text = {};
        return;
    }
    fail(ErrorKind::kCorrupt, "row {}: column '{}': neither a number nor text", row_,
         table_.columns()[static_cast<std::size_t>(column)]);
  }

  store::SqliteTable table_;
  std::uint64_t row_ = 0;
};

}  // namespace

std::unique_ptr<TableReader> read_sqlite(std::unique_ptr<Source> source, const std::string& table) {
  return std::make_unique<SqliteReader>(*source, table);
}

}  // namespace mlx::data
