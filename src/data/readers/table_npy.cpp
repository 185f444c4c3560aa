// Arrays of NumPy as tables: one or two dimensions of numbers, a row for each index of the first. The columns of an npy
// file are named 1, 2, 3 …. In an npz file, which is a zip file of them, an array of one dimension is a column with the
// array's name, and the columns of array x are x.1, x.2, x.3 …; all arrays have the same number of rows.
#include <algorithm>

#include "base/error.h"
#include "data/readers/npy_rows.h"
#include "data/readers/table_format.h"
#include "data/readers/zip_files.h"

namespace mlx::data {
namespace {

class ArraysReader final : public TableReader {
 public:
  // The first row of a table without columns is its end.
  void add(NpyRows array, const std::string& name) {
    for (std::size_t i = 0; i < array.width(); ++i)
      columns_.push_back(name.empty()          ? std::to_string(i + 1)
                         : array.has_columns() ? fmt::format("{}.{}", name, i + 1)
                                               : name);
    if (columns_.size() > kMostColumns)
      fail(ErrorKind::kCorrupt, "npz: {} columns, more than a table may have", columns_.size());
    rows_ = array.rows();
    named_ = !name.empty();
    arrays_.push_back(std::move(array));
  }
  void leave_out(const std::string& name, const std::string& why) {
    left_out_ += fmt::format("{}'{}' ({})", left_out_.empty() ? "left out: " : ", ", name, why);
  }

  bool next(Row& row) override {
    if (row_ == rows_) return false;
    row.cells.resize(columns_.size());
    for (std::size_t i = 0; i < columns_.size(); ++i) row.cells[i].column = static_cast<std::uint32_t>(i);
    Cell* cells = row.cells.data();
    for (NpyRows& array : arrays_) {
      array.read(row_, cells);
      cells += array.width();
    }
    row.offset = row_++;
    return true;
  }

  void seek(std::uint64_t offset) override { row_ = std::min(offset, rows_); }
  const std::vector<std::string>& columns() const override { return columns_; }
  std::string no_header() const override { return named_ ? "" : "npy files have no names of columns"; }
  std::string found_out() const override { return left_out_; }

 private:
  std::vector<NpyRows> arrays_;
  std::vector<std::string> columns_;
  std::string left_out_;
  bool named_ = false;
  std::uint64_t rows_ = 0, row_ = 0;
};

std::string array_name(const std::string& file) {
  return file.ends_with(".npy") ? file.substr(0, file.size() - 4) : file;
}

}  // namespace

std::unique_ptr<TableReader> read_npy(std::unique_ptr<Source> source) {
  auto reader = std::make_unique<ArraysReader>();
  reader->add(NpyRows(std::move(source)), "");
  return reader;
}

std::unique_ptr<TableReader> read_npz(std::unique_ptr<Source> source) {
  auto reader = std::make_unique<ArraysReader>();
  std::string first;
  std::uint64_t rows = 0;
  for (const ZipFile& file : zip_files(std::move(source))) {
    if (!file.name.ends_with(".npy")) continue;
    const std::string name = array_name(file.name);
    if (const std::string why = why_no_table(read_npy_header(*file.open())); !why.empty()) {
      reader->leave_out(name, why);
      continue;
    }
    NpyRows array(file.open());
    if (first.empty()) first = name, rows = array.rows();
    if (array.rows() != rows)
      throw Error(ErrorKind::kCorrupt,
                  fmt::format("npz: array '{}' has {} rows, '{}' has {}", name, array.rows(), first, rows),
                  "the arrays of one table have equally many rows; write other splits to files of their own");
    reader->add(std::move(array), name);
  }
  if (first.empty())
    throw Error(ErrorKind::kCorrupt, "npz: no array of one or two dimensions of numbers is in it",
                "numpy.savez(file, x=..., y=...) writes such files");
  return reader;
}

}  // namespace mlx::data
