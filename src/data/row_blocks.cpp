// Checks, conversions and a transposition, each a loop over one column or a few.
#include "data/row_blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace mlx::data {
namespace {

constexpr double kLargestFloat = std::numeric_limits<float>::max();

// False for NaN too. Without their signs doubles are ordered as their bits are, so that a difference of these below 0
// tells of a number that does not fit. The loop has neither branches nor comparisons.
bool all_fit(const double* values, std::size_t count) {
  constexpr std::uint64_t kSign = std::uint64_t{1} << 63, kMostBits = std::bit_cast<std::uint64_t>(kLargestFloat);
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < count; ++i) below |= kMostBits - (std::bit_cast<std::uint64_t>(values[i]) & ~kSign);
  return (below & kSign) == 0;
}

// Of a column of floats that are not all numbers that fit.
std::optional<std::size_t> count_fitting(const double* values, std::size_t count) {
  std::size_t present = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (std::abs(values[i]) > kLargestFloat) return std::nullopt;
    present += !std::isnan(values[i]);
  }
  return present;
}

}  // namespace

std::optional<std::size_t> count_numbers(const ColumnBlock& column, std::size_t rows) {
  if (column.floats) return all_fit(column.floats, rows) ? rows : count_fitting(column.floats, rows);
  if (!column.integers) return std::nullopt;
  return column.present ? rows - static_cast<std::size_t>(std::count(column.present, column.present + rows, 0)) : rows;
}

BlockNumbers numbers_of(const ColumnBlock& column, std::size_t rows, double* scratch) {
  if (column.floats && all_fit(column.floats, rows)) return {column.floats, false};
  const std::optional<std::size_t> present = count_numbers(column, rows);
  if (!present) return {};
  for (std::size_t i = 0; column.floats && i < rows; ++i)
    scratch[i] = std::isnan(column.floats[i]) ? kNoNumber : column.floats[i];  // of the many NaN always the same
  for (std::size_t i = 0; column.integers && i < rows; ++i) scratch[i] = static_cast<double>(column.integers[i]);
  for (std::size_t i = 0; column.present && i < rows; ++i)
    if (column.present[i] == 0) scratch[i] = kNoNumber;
  return {scratch, *present < rows};
}

// Eight columns at a time, so that a row's part is one or two cache lines, which are written once.
void transpose(const std::vector<const double*>& columns, std::size_t rows, double* to) {
  constexpr std::size_t kTile = 8;
  const std::size_t width = columns.size();
  for (std::size_t first = 0; first < width; first += kTile) {
    const std::size_t count = std::min(kTile, width - first);
    const double* const* const from = columns.data() + first;
    if (count == kTile && std::all_of(from, from + kTile, [](const double* column) { return column; })) {
      const double* tile[kTile];
      std::copy_n(from, kTile, tile);
      for (std::size_t row = 0; row < rows; ++row) {
        double* const out = to + row * width + first;
        for (std::size_t i = 0; i < kTile; ++i) out[i] = tile[i][row];
      }
      continue;
    }
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t row = 0; from[i] && row < rows; ++row) to[row * width + first + i] = from[i][row];
  }
}

void read_cells(const RowBlock& block, std::size_t index, const std::vector<std::uint32_t>& columns, Row& row) {
  row.offset = block.offset + index;
  row.cells.resize(columns.size());
  for (std::size_t i = 0; i < columns.size(); ++i) {
    row.cells[i] = block.columns[columns[i]].cell(index);
    row.cells[i].column = columns[i];
  }
}

}  // namespace mlx::data
