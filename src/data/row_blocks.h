// Blocks of typed columns as rows of numbers. Used by the reader of rows and by the search for a schema, which read
// cell by cell what these functions leave.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include "data/readers/table.h"
#include "data/row_value.h"

namespace mlx::data {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

// How many rows of the column have a value; nullopt if they are not all numbers that fit a float.
std::optional<std::size_t> count_numbers(const ColumnBlock& column, std::size_t rows);

// A column of numbers that fit a float, one for each row; NaN where there is none. `values` is null for other columns.
struct BlockNumbers {
  const double* values = nullptr;
  bool missing = false;  // some are NaN
};
// The numbers stand in `scratch`, which has room for `rows`, or in the column.
BlockNumbers numbers_of(const ColumnBlock& column, std::size_t rows, double* scratch);

// Writes columns beside each other: to[row][i] is columns[i][row]. Those that are null are left out.
void transpose(const std::vector<const double*>& columns, std::size_t rows, const RowRoom::Places<double>& to);

// Values that were read cell by cell before, of a column whose later values tell nothing new if they are among these:
// text by the indices of a dictionary's cells, and integers that were met lately.
class KnownValues {
 public:
  // How many rows have a value; nullopt if one is not known.
  std::optional<std::size_t> count(const ColumnBlock& column, std::size_t rows) const;
  void keep(const ColumnBlock& column, std::size_t rows, CellReader& cells);

 private:
  enum class Met : std::uint8_t { kNever, kText, kNone };
  std::vector<Met> cells_;
  std::uint64_t dictionary_ = 0;
  std::vector<std::optional<std::int64_t>> integers_;
};

// The cells of row `index` in some of the block's columns.
void read_cells(const RowBlock& block, std::size_t index, const std::vector<std::uint32_t>& columns, Row& row);

}  // namespace mlx::data
