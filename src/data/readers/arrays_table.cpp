// Reads the arrays' rows side by side.
#include "data/readers/arrays_table.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace mlx::data {

void ArraysTable::add(ArrayRows array, const std::string& name) {
  if (arrays_.empty()) first_ = name, rows_ = array.rows();
  if (array.rows() != rows_)
    throw Error(ErrorKind::kCorrupt,
                fmt::format("{}: array '{}' has {} rows, '{}' has {}", format_, name, array.rows(), first_, rows_),
                "the arrays of one table have equally many rows; write other splits to files of their own");
  for (std::size_t i = 0; i < array.width(); ++i)
    columns_.push_back(name.empty()          ? std::to_string(i + 1)
                       : array.has_columns() ? fmt::format("{}.{}", name, i + 1)
                                             : name);
  if (columns_.size() > kMostColumns)
    fail(ErrorKind::kCorrupt, "{}: {} columns, more than a table may have", format_, columns_.size());
  arrays_.push_back(std::move(array));
}

void ArraysTable::leave_out(const std::string& name, const std::string& why) {
  left_out_ += fmt::format("{}'{}' ({})", left_out_.empty() ? "left out: " : ", ", name, why);
}

class ArraysReader final : public TableReader {
 public:
  explicit ArraysReader(ArraysTable table) : table_(std::move(table)) {
    for (ArrayRows& array : table_.arrays_) array.share(table_.arrays_.size());
  }

  // The first row of a table without columns is its end.
  bool next(Row& row) override {
    if (row_ == table_.rows_) return false;
    row.cells.resize(table_.columns_.size());
    for (std::size_t i = 0; i < row.cells.size(); ++i) row.cells[i].column = static_cast<std::uint32_t>(i);
    Cell* cells = row.cells.data();
    for (ArrayRows& array : table_.arrays_) {
      array.read(row_, cells);
      cells += array.width();
    }
    row.offset = row_++;
    return true;
  }

  bool has_blocks() const override { return true; }
  bool next_block(RowBlock& block) override {
    if (row_ == table_.rows_) return false;
    block.offset = row_;
    block.rows =
        static_cast<std::size_t>(std::min<std::uint64_t>(table_.rows_ - row_, rows_of_block(table_.columns_.size())));
    for (ArrayRows& array : table_.arrays_)
      block.rows = static_cast<std::size_t>(std::min<std::uint64_t>(block.rows, array.hold(row_)));
    block.columns.clear();
    for (ArrayRows& array : table_.arrays_) array.read_columns(row_, block.rows, block.columns);
    row_ += block.rows;
    return true;
  }

  void seek(std::uint64_t offset) override { row_ = std::min(offset, table_.rows_); }
  const std::vector<std::string>& columns() const override { return table_.columns_; }
  std::string no_header() const override {
    return table_.first_.empty() ? fmt::format("{} files have no names of columns", table_.format_) : "";
  }
  std::string found_out() const override { return table_.left_out_; }

 private:
  ArraysTable table_;
  std::uint64_t row_ = 0;
};

std::unique_ptr<TableReader> ArraysTable::reader() && {
  std::vector<std::string_view> names(columns_.begin(), columns_.end());
  std::ranges::sort(names);
  if (const auto same = std::ranges::adjacent_find(names); same != names.end())
    throw Error(ErrorKind::kCorrupt, fmt::format("{}: two columns are called '{}'", format_, *same),
                "column I of an array X of two dimensions is called X.I: rename one of the arrays");
  return std::make_unique<ArraysReader>(std::move(*this));
}

}  // namespace mlx::data
