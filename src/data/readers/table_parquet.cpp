// Parquet files as tables: the columns that are not nested, row group by row group.
#include <algorithm>
#include <deque>
#include <limits>

#include "base/error.h"
#include "data/readers/parquet_values.h"
#include "data/readers/table_format.h"

namespace mlx::data {
namespace {

constexpr std::uint64_t kLargestFooter = 256 << 20;
constexpr std::uint64_t kTail = 8;  // the footer's length and the mark

formats::ParquetFooter read_footer(const Source& source) {
  const std::uint64_t size = source.size();
  std::uint8_t tail[kTail] = {};
  if (size < 2 * kTail - 4 || source.read_at(size - kTail, tail, kTail) != kTail ||
      !as_text(tail).substr(4).starts_with("PAR1"))
    throw Error(ErrorKind::kCorrupt, "parquet: the file has no end", "it may be cut off");
  const std::uint64_t length = load_little_endian<std::uint32_t>(tail);
  if (length > size - kTail - 4 || length > kLargestFooter) fail(ErrorKind::kCorrupt, "parquet: an impossible footer");
  Bytes footer(static_cast<std::size_t>(length));
  if (source.read_at(size - kTail - length, footer.data(), footer.size()) != footer.size())
    fail(ErrorKind::kCorrupt, "parquet: the file is cut off");
  return formats::parse_parquet_footer(footer, size);
}

class ParquetReader final : public TableReader {
 public:
  explicit ParquetReader(std::unique_ptr<Source> source)
      : source_(std::move(source)), footer_(read_footer(*source_)), pages_{*source_} {
    const std::size_t batch = rows_of_block(footer_.columns.size());
    for (std::size_t i = 0; i < footer_.columns.size(); ++i) {
      const formats::ParquetColumn& column = footer_.columns[i];
      if (!ParquetValues::can_read(column)) {
        left_out_ += (left_out_.empty() ? "" : ", ") + column.name;
        continue;
      }
      chunks_.push_back(i);
      columns_.push_back(column.name);
      values_.emplace_back(pages_, column, batch);
    }
    if (columns_.empty())
      throw Error(ErrorKind::kCorrupt, "parquet: the file has no column of numbers or text",
                  left_out_.empty() ? "" : "lists, groups and binary are left out: " + left_out_);
    if (columns_.size() > kMostColumns)
      fail(ErrorKind::kCorrupt, "parquet: {} columns, more than a table may have", columns_.size());
  }

  bool next(Row& row) override {
    if (!begin_row()) return false;
    row.offset = row_;
    row.cells.resize(columns_.size());
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      row.cells[i] = values_[i].block().cell(0);
      row.cells[i].column = static_cast<std::uint32_t>(i);
    }
    pass(1);
    return true;
  }

  bool has_blocks() const override { return true; }
  bool next_block(RowBlock& block) override {
    if (!begin_row()) return false;
    block.offset = row_;
    block.rows = static_cast<std::size_t>(
        std::min<std::uint64_t>(footer_.groups[group_].rows - in_group_, std::numeric_limits<std::size_t>::max()));
    block.columns.clear();
    for (const ParquetValues& values : values_) {
      block.rows = std::min(block.rows, values.decoded());
      block.columns.push_back(values.block());
    }
    pass(block.rows);
    return true;
  }

  void seek(std::uint64_t offset) override {
    if (opened_ && offset == row_) return;
    row_ = in_group_ = offset;
    for (group_ = 0; group_ < footer_.groups.size() && in_group_ >= footer_.groups[group_].rows; ++group_)
      in_group_ -= footer_.groups[group_].rows;
    opened_ = false;
  }
  const std::vector<std::string>& columns() const override { return columns_; }
  std::optional<std::uint64_t> declared_rows() const override {
    std::uint64_t rows = 0;
    for (const formats::ParquetGroup& group : footer_.groups) rows += group.rows;
    return rows;
  }
  std::string found_out() const override {
    return left_out_.empty() ? "" : fmt::format("left out as lists, groups or binary: {}", left_out_);
  }

 private:
  // Decodes the next row and more; false at the end.
  bool begin_row() {
    while (group_ < footer_.groups.size() && in_group_ == footer_.groups[group_].rows) ++group_, in_group_ = 0;
    if (group_ == footer_.groups.size()) return false;
    try {
      if (!opened_ || in_group_ == 0) open_group();
      for (ParquetValues& values : values_) values.decode();
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kCorrupt) throw;
      throw Error(error.kind, fmt::format("row {}: {}", row_ + 1, error.message), error.hint);
    }
    return true;
  }
  void pass(std::size_t rows) {
    for (ParquetValues& values : values_) values.pass(rows);
    row_ += rows, in_group_ += rows;
  }

  // At row in_group_ of the group.
  void open_group() {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      values_[i].open(footer_.groups[group_].chunks[chunks_[i]]);
      values_[i].skip(in_group_);
    }
    opened_ = true;
  }

  std::unique_ptr<Source> source_;
  formats::ParquetFooter footer_;
  ParquetPages pages_;
  std::vector<std::size_t> chunks_;  // of a group: those of columns_
  std::vector<std::string> columns_;
  std::deque<ParquetValues> values_;
  std::string left_out_;
  std::uint64_t row_ = 0, in_group_ = 0;
  std::size_t group_ = 0;
  bool opened_ = false;
};

}  // namespace

std::unique_ptr<TableReader> read_parquet(std::unique_ptr<Source> source) {
  return std::make_unique<ParquetReader>(std::move(source));
}

}  // namespace mlx::data
