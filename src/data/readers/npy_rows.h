// The rows of an array of NumPy as cells, read block by block. Used by the readers of npy and npz.
#pragma once

#include <memory>
#include <string>

#include "data/readers/source.h"
#include "data/readers/table.h"
#include "formats/npy.h"

namespace mlx::data {

formats::NpyHeader read_npy_header(const Source& source);
// Why the array is not a table, for an error; "" if it is: one or two dimensions of little-endian numbers.
std::string why_no_table(const formats::NpyHeader& header);

class NpyRows {
 public:
  // Throws kCorrupt if the array is not a table.
  explicit NpyRows(std::unique_ptr<Source> source);
  std::uint64_t rows() const { return rows_; }
  std::size_t width() const { return width_; }
  bool has_columns() const { return two_dimensions_; }
  // Writes width() cells; their columns stay as they are. kCorrupt if the file ends before the row.
  void read(std::uint64_t row, Cell* cells);

 private:
  void read_block(std::uint64_t row);
  std::size_t read_part(std::uint64_t element, std::uint8_t* to, std::size_t bytes) const;

  std::unique_ptr<Source> source_;
  const struct NpyElement* element_ = nullptr;
  bool by_columns_ = false;  // Fortran's order, which pandas writes
  bool two_dimensions_ = false;
  std::uint64_t begin_ = 0, rows_ = 0;
  std::size_t width_ = 0, row_bytes_ = 0;
  Bytes block_;                         // of the rows from first_; column by column if the file is
  std::uint64_t first_ = 0, held_ = 0;  // held_: whole rows in it
};

}  // namespace mlx::data
