// Checks, conversions and a transposition, each a loop over one column or a few.
#include "data/row_blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace mlx::data {
namespace {

constexpr double kLargestFloat = std::numeric_limits<float>::max();
constexpr std::size_t kKnownIntegers = 64;

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

// Pairs of columns, a few rows at a time. The cache lines that later rows are written to are fetched meanwhile: a store
// that has to wait for its line holds up all stores after it.
void transpose(const std::vector<const double*>& columns, std::size_t rows, const RowRoom::Places<double>& to) {
  constexpr std::size_t kTile = 8, kAhead = 32, kLine = 64 / sizeof(double);
  const std::size_t width = columns.size();
  for (std::size_t first = 0; first < rows; first += kTile) {
    const std::size_t end = std::min(rows, first + kTile);
    for (std::size_t row = first + kAhead; row < std::min(rows, end + kAhead); ++row)
      for (std::size_t i = 0; i < width; i += kLine) __builtin_prefetch(to[row] + i, 1);
    for (std::size_t i = 0; i < width; ++i) {
      const double* const left = columns[i];
      const double* const right = i + 1 < width ? columns[i + 1] : nullptr;
      if (left && right) {
        for (std::size_t row = first; row < end; ++row) {
          const double pair[] = {left[row], right[row]};
          std::memcpy(to[row] + i, pair, sizeof pair);
        }
        ++i;
      } else if (left) {
        for (std::size_t row = first; row < end; ++row) to[row][i] = left[row];
      }
    }
  }
}

std::optional<std::size_t> KnownValues::count(const ColumnBlock& column, std::size_t rows) const {
  std::size_t present = 0;
  if (column.codes && column.dictionary == dictionary_ && !cells_.empty()) {
    for (std::size_t i = 0; i < rows; ++i) {
      const Met met = cells_[column.codes[i]];
      if (met == Met::kNever) return std::nullopt;
      present += met == Met::kText;
    }
    return present;
  }
  if (!column.integers || integers_.empty()) return std::nullopt;
  for (std::size_t i = 0; i < rows; ++i) {
    if (column.present && column.present[i] == 0) continue;
    if (integers_[static_cast<std::uint64_t>(column.integers[i]) % kKnownIntegers] != column.integers[i])
      return std::nullopt;
    ++present;
  }
  return present;
}

void KnownValues::keep(const ColumnBlock& column, std::size_t rows, CellReader& cells) {
  if (column.codes) {
    if (column.dictionary != dictionary_) cells_.clear();
    dictionary_ = column.dictionary;
    cells_.resize(column.count, Met::kNever);
    for (std::size_t i = 0; i < rows; ++i) {
      Met& met = cells_[column.codes[i]];
      if (met != Met::kNever) continue;
      const RowValue value = cells.read(column.cell(i), false);
      if (value.kind != RowValue::Kind::kNumber) met = value.kind == RowValue::Kind::kText ? Met::kText : Met::kNone;
    }
  } else if (column.integers) {
    integers_.resize(kKnownIntegers);
    for (std::size_t i = 0; i < rows; ++i)
      if (!column.present || column.present[i] != 0)
        integers_[static_cast<std::uint64_t>(column.integers[i]) % kKnownIntegers] = column.integers[i];
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
