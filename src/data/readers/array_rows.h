// The rows of an array of numbers as cells or columns, read block by block. Used by the readers of npy, npz and
// safetensors.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/readers/source.h"
#include "data/readers/table.h"
#include "formats/array_types.h"

namespace mlx::data {

struct ArrayLayout {
  const formats::ArrayType* type = nullptr;
  std::vector<std::int64_t> shape;  // one or two dimensions
  std::uint64_t begin = 0;          // of the elements in the source
  bool fortran_order = false;       // column by column, as pandas writes
};
// Why an array of this shape is not a table, for an error; "" if it is one.
std::string why_no_table(const std::vector<std::int64_t>& shape);

class ArrayRows {
 public:
  ArrayRows(std::shared_ptr<const Source> source, const ArrayLayout& layout);
  std::uint64_t rows() const { return rows_; }
  std::size_t width() const { return width_; }
  bool has_columns() const { return two_dimensions_; }
  // Says, before the first read, how many arrays have a block in memory at the same time.
  void share(std::size_t arrays);
  // Reads the row and others after it; returns how many are in memory from it on. kCorrupt if the file ends before it.
  std::uint64_t hold(std::uint64_t row);
  // Writes width() cells; their columns stay as they are. kCorrupt as hold().
  void read(std::uint64_t row, Cell* cells);
  // Appends width() columns of rows that are in memory. They live until the next call.
  void read_columns(std::uint64_t row, std::size_t count, std::vector<ColumnBlock>& columns);

 private:
  struct Elements {
    const std::uint8_t* first;
    std::size_t row_step, column_step;  // bytes
  };
  struct ReadElements {
    template <typename Number>
    using Numbers = void (*)(const std::uint8_t* from, std::size_t step, std::size_t count, Number* to);
    void (*cell)(const std::uint8_t* at, Cell& cell) = nullptr;
    Numbers<std::int64_t> integers = nullptr;  // null unless all elements are integers
    Numbers<double> floats = nullptr;          // null unless all are floats
  };
  Elements elements(std::uint64_t row) const;
  void read_block(std::uint64_t row);
  std::size_t read_part(std::uint64_t element, std::uint8_t* to, std::size_t bytes) const;

  std::shared_ptr<const Source> source_;
  const formats::ArrayType* type_ = nullptr;
  ReadElements read_;
  bool by_columns_ = false;
  bool two_dimensions_ = false;
  std::uint64_t begin_ = 0, rows_ = 0;
  std::size_t width_ = 0, row_bytes_ = 0, most_ = 0;  // most_: bytes of a block
  Bytes block_;                                       // of the rows from first_; column by column if the file is
  std::uint64_t first_ = 0, held_ = 0;                // held_: whole rows in it
  std::vector<std::int64_t> integers_;                // of the columns that were read last, one after the other
  std::vector<double> floats_;
  std::vector<Cell> cells_;
};

}  // namespace mlx::data
