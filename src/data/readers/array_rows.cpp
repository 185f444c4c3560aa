// Elements of all types, and blocks of rows in both orders.
#include "data/readers/array_rows.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "base/error.h"

namespace mlx::data {
namespace {

constexpr std::size_t kBlockOfRows = 256 * 1024;  // bytes, at least one row
constexpr std::size_t kAllBlocks = 64 << 20;      // bytes of the blocks of all arrays of a table
constexpr std::size_t kBlockOfColumns = 8 << 20;  // bytes: each column is a read of its own

using formats::load_element;

void set_number(Cell& cell, double number) {
  cell.form = std::isnan(number) ? Cell::Form::kNull : Cell::Form::kFloat;
  cell.number = number;
}
void set_integer(Cell& cell, std::int64_t integer) {
  cell.form = Cell::Form::kInt;
  cell.integer = integer;
}

template <typename T>
void read_element(const std::uint8_t* at, Cell& cell) {
  const T value = load_element<T>(at);
  if constexpr (std::is_same_v<T, formats::Bool>) {
    cell.form = Cell::Form::kBool;
    cell.text = value.byte ? "true" : "false";
  } else if constexpr (std::is_same_v<T, std::uint64_t>) {
    value >> 63 == 0 ? set_integer(cell, static_cast<std::int64_t>(value))
                     : set_number(cell, static_cast<double>(value));
  } else if constexpr (std::is_integral_v<T>) {
    set_integer(cell, value);
  } else {
    set_number(cell, static_cast<double>(value));
  }
}

template <typename T, typename Number>
Number element_as(const std::uint8_t* at) {
  return static_cast<Number>(load_element<T>(at));
}

// `count` elements, `step` bytes from one to the next.
template <typename T, typename Number>
void read_numbers(const std::uint8_t* from, std::size_t step, std::size_t count, Number* to) {
  for (std::size_t i = 0; i < count; ++i, from += step) to[i] = element_as<T, Number>(from);
}

template <typename T>
constexpr bool kIsInteger = std::is_integral_v<T> && !std::is_same_v<T, std::uint64_t>;

}  // namespace

std::string why_no_table(const std::vector<std::int64_t>& shape) {
  if (shape.empty() || shape.size() > 2)
    return fmt::format("an array of {} dimensions, a table has one or two", shape.size());
  if (shape.size() == 2 && shape[1] > static_cast<std::int64_t>(kMostColumns))
    return fmt::format("{} columns, more than a table may have", shape[1]);
  return {};
}

ArrayRows::ArrayRows(std::shared_ptr<const Source> source, const ArrayLayout& layout)
    : source_(std::move(source)), type_(layout.type), begin_(layout.begin) {
  CHECK(type_ && why_no_table(layout.shape).empty());
  rows_ = static_cast<std::uint64_t>(layout.shape[0]);
  two_dimensions_ = layout.shape.size() == 2;
  width_ = two_dimensions_ ? static_cast<std::size_t>(layout.shape[1]) : 1;
  by_columns_ = layout.fortran_order && width_ > 1;
  row_bytes_ = width_ * type_->size;
  read_ = formats::with_element(type_->element, []<typename T>() -> ReadElements {
    if constexpr (kIsInteger<T>) return {read_element<T>, read_numbers<T, std::int64_t>, nullptr};
    if constexpr (std::is_integral_v<T> || std::is_same_v<T, formats::Bool>) return {read_element<T>, nullptr, nullptr};
    return {read_element<T>, nullptr, read_numbers<T, double>};
  });
  most_ = by_columns_ ? kBlockOfColumns : kBlockOfRows;
  if (width_ == 0) rows_ = 0;
}

void ArrayRows::share(std::size_t arrays) {
  most_ = std::min(most_, kAllBlocks / arrays);
}

std::uint64_t ArrayRows::hold(std::uint64_t row) {
  if (row < first_ || row - first_ >= held_) read_block(row);
  return first_ + held_ - row;
}

void ArrayRows::read(std::uint64_t row, Cell* cells) {
  hold(row);
  const Elements from = elements(row);
  for (std::size_t i = 0; i < width_; ++i) read_.cell(from.first + i * from.column_step, cells[i]);
}

// A few rows at a time, so that the first level cache holds them for all columns.
void ArrayRows::read_columns(std::uint64_t row, std::size_t count, std::vector<ColumnBlock>& columns) {
  constexpr std::size_t kTile = 16;
  const Elements from = elements(row);
  const std::size_t values = width_ * count;
  integers_.resize(read_.integers ? values : 0);
  floats_.resize(read_.floats ? values : 0);
  cells_.resize(read_.integers || read_.floats ? 0 : values);
  for (std::size_t first = 0; first < count; first += kTile) {
    const std::size_t some = std::min(kTile, count - first);
    for (std::size_t i = 0; i < width_; ++i) {
      const std::uint8_t* const at = from.first + first * from.row_step + i * from.column_step;
      const std::size_t to = i * count + first;
      if (read_.integers) read_.integers(at, from.row_step, some, integers_.data() + to);
      if (read_.floats) read_.floats(at, from.row_step, some, floats_.data() + to);
      for (std::size_t k = 0; k < some && !cells_.empty(); ++k) read_.cell(at + k * from.row_step, cells_[to + k]);
    }
  }
  for (std::size_t i = 0; i < width_; ++i) {
    ColumnBlock& column = columns.emplace_back();
    if (read_.integers) column.integers = integers_.data() + i * count;
    if (read_.floats) column.floats = floats_.data() + i * count;
    if (!cells_.empty()) column.cells = cells_.data() + i * count;
  }
}

// Of the rows in memory: where a row begins, and how far it is to the next row and the next column.
ArrayRows::Elements ArrayRows::elements(std::uint64_t row) const {
  const std::size_t row_step = by_columns_ ? type_->size : row_bytes_;
  const std::size_t column_step = by_columns_ ? static_cast<std::size_t>(held_) * type_->size : type_->size;
  return {block_.data() + static_cast<std::size_t>(row - first_) * row_step, row_step, column_step};
}

std::size_t ArrayRows::read_part(std::uint64_t element, std::uint8_t* to, std::size_t bytes) const {
  // A header may declare more than 2^64 bytes; then the file ends before.
  if (element > (~std::uint64_t{0} - begin_) / type_->size) return 0;
  return source_->read_at(begin_ + element * type_->size, to, bytes);
}

void ArrayRows::read_block(std::uint64_t row) {
  const std::size_t most = std::max<std::size_t>(most_ / row_bytes_, 1);
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(most, rows_ - row));
  block_.resize(count * row_bytes_);
  first_ = row, held_ = 0;
  if (by_columns_) {
    const std::size_t part = count * type_->size;
    std::size_t whole = 0;
    for (std::size_t i = 0; i < width_ && rows_ <= ~std::uint64_t{0} / width_; ++i)
      whole += read_part(i * rows_ + row, block_.data() + i * part, part) == part;
    held_ = whole == width_ ? count : 0;
  } else if (row <= ~std::uint64_t{0} / width_) {
    held_ = read_part(row * width_, block_.data(), block_.size()) / row_bytes_;
  }
  if (held_ == 0) fail(ErrorKind::kCorrupt, "row {}: the file is cut off, {} rows are declared", row + 1, rows_);
}

}  // namespace mlx::data
