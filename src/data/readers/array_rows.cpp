// Elements of all types, and blocks of rows in both orders.
#include "data/readers/array_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"

namespace mlx::data {
namespace {

constexpr std::size_t kBlockOfRows = 256 * 1024;  // bytes, at least one row
constexpr std::size_t kAllBlocks = 64 << 20;      // bytes of the blocks of all arrays of a table
constexpr std::size_t kBlockOfColumns = 8 << 20;  // bytes: each column is a read of its own

double half_to_double(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == 31) return fraction ? std::nan("") : sign * HUGE_VAL;
  return sign * (exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24));
}

// An element of type T as the number that it is: an integer or a double.
template <typename T>
std::int64_t integer(const std::uint8_t* at) {
  return static_cast<T>(load_little_endian<std::make_unsigned_t<T>>(at));
}
double f16(const std::uint8_t* at) {
  return half_to_double(load_little_endian<std::uint16_t>(at));
}
double bf16(const std::uint8_t* at) {
  return std::bit_cast<float>(std::uint32_t{load_little_endian<std::uint16_t>(at)} << 16);
}
double f32(const std::uint8_t* at) {
  return std::bit_cast<float>(load_little_endian<std::uint32_t>(at));
}
double f64(const std::uint8_t* at) {
  return std::bit_cast<double>(load_little_endian<std::uint64_t>(at));
}

void set_number(Cell& cell, std::int64_t value) {
  cell.form = Cell::Form::kInt;
  cell.integer = value;
}
void set_number(Cell& cell, double value) {
  cell.form = std::isnan(value) ? Cell::Form::kNull : Cell::Form::kFloat;
  cell.number = value;
}
template <auto kNumber>
void read_number(const std::uint8_t* at, Cell& cell) {
  set_number(cell, kNumber(at));
}
void read_u64(const std::uint8_t* at, Cell& cell) {
  const auto value = load_little_endian<std::uint64_t>(at);
  if (value >> 63 == 0) return set_number(cell, static_cast<std::int64_t>(value));
  cell.form = Cell::Form::kFloat;
  cell.number = static_cast<double>(value);
}
void read_bool(const std::uint8_t* at, Cell& cell) {
  cell.form = Cell::Form::kBool;
  cell.text = *at ? "true" : "false";
}

// `count` elements, `step` bytes from one to the next.
template <auto kNumber, typename Number>
void read_numbers(const std::uint8_t* from, std::size_t step, std::size_t count, Number* to) {
  for (std::size_t i = 0; i < count; ++i, from += step) to[i] = kNumber(from);
}
template <typename Number>
using ReadNumbers = void (*)(const std::uint8_t*, std::size_t, std::size_t, Number*);

}  // namespace

struct ArrayElement {
  std::string_view descr;  // of npy
  std::string_view dtype;  // of safetensors
  std::size_t size;
  void (*read)(const std::uint8_t* at, Cell& cell);
  ReadNumbers<std::int64_t> integers = nullptr;  // null unless all are integers
  ReadNumbers<double> floats = nullptr;          // null unless all are floats
};
namespace {
template <typename T>
constexpr ArrayElement integers(std::string_view descr, std::string_view dtype) {
  return {descr, dtype, sizeof(T), read_number<integer<T>>, read_numbers<integer<T>, std::int64_t>};
}
template <auto kNumber>
constexpr ArrayElement floats(std::string_view descr, std::string_view dtype, std::size_t size) {
  return {descr, dtype, size, read_number<kNumber>, nullptr, read_numbers<kNumber, double>};
}
constexpr ArrayElement kElements[] = {
    {"|b1", "BOOL", 1, read_bool},         integers<std::int8_t>("|i1", "I8"),    integers<std::uint8_t>("|u1", "U8"),
    integers<std::int16_t>("<i2", "I16"),  integers<std::uint16_t>("<u2", "U16"), integers<std::int32_t>("<i4", "I32"),
    integers<std::uint32_t>("<u4", "U32"), integers<std::int64_t>("<i8", "I64"),  {"<u8", "U64", 8, read_u64},
    floats<f16>("<f2", "F16", 2),          floats<bf16>("", "BF16", 2),           floats<f32>("<f4", "F32", 4),
    floats<f64>("<f8", "F64", 8),
};

const ArrayElement* element_with(std::string_view ArrayElement::*name, std::string_view value) {
  const auto found = std::ranges::find(kElements, value, name);
  return value.empty() || found == std::end(kElements) ? nullptr : &*found;
}
}  // namespace

const ArrayElement* npy_element(std::string_view descr) {
  return element_with(&ArrayElement::descr, descr);
}
const ArrayElement* safetensors_element(std::string_view dtype) {
  return element_with(&ArrayElement::dtype, dtype);
}

std::string why_no_table(const std::vector<std::int64_t>& shape) {
  if (shape.empty() || shape.size() > 2)
    return fmt::format("an array of {} dimensions, a table has one or two", shape.size());
  if (shape.size() == 2 && shape[1] > static_cast<std::int64_t>(kMostColumns))
    return fmt::format("{} columns, more than a table may have", shape[1]);
  return {};
}

ArrayRows::ArrayRows(std::shared_ptr<const Source> source, const ArrayLayout& layout)
    : source_(std::move(source)), element_(layout.element), begin_(layout.begin) {
  CHECK(element_ && why_no_table(layout.shape).empty());
  rows_ = static_cast<std::uint64_t>(layout.shape[0]);
  two_dimensions_ = layout.shape.size() == 2;
  width_ = two_dimensions_ ? static_cast<std::size_t>(layout.shape[1]) : 1;
  by_columns_ = layout.fortran_order && width_ > 1;
  row_bytes_ = width_ * element_->size;
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
  for (std::size_t i = 0; i < width_; ++i) element_->read(from.first + i * from.column_step, cells[i]);
}

// A few rows at a time, so that the first level cache holds them for all columns.
void ArrayRows::read_columns(std::uint64_t row, std::size_t count, std::vector<ColumnBlock>& columns) {
  constexpr std::size_t kTile = 16;
  const Elements from = elements(row);
  const std::size_t values = width_ * count;
  integers_.resize(element_->integers ? values : 0);
  floats_.resize(element_->floats ? values : 0);
  cells_.resize(element_->integers || element_->floats ? 0 : values);
  for (std::size_t first = 0; first < count; first += kTile) {
    const std::size_t some = std::min(kTile, count - first);
    for (std::size_t i = 0; i < width_; ++i) {
      const std::uint8_t* const at = from.first + first * from.row_step + i * from.column_step;
      const std::size_t to = i * count + first;
      if (element_->integers) element_->integers(at, from.row_step, some, integers_.data() + to);
      if (element_->floats) element_->floats(at, from.row_step, some, floats_.data() + to);
      for (std::size_t k = 0; k < some && !cells_.empty(); ++k) element_->read(at + k * from.row_step, cells_[to + k]);
    }
  }
  for (std::size_t i = 0; i < width_; ++i) {
    ColumnBlock& column = columns.emplace_back();
    if (element_->integers) column.integers = integers_.data() + i * count;
    if (element_->floats) column.floats = floats_.data() + i * count;
    if (!cells_.empty()) column.cells = cells_.data() + i * count;
  }
}

// Of the rows in memory: where a row begins, and how far it is to the next row and the next column.
ArrayRows::Elements ArrayRows::elements(std::uint64_t row) const {
  const std::size_t row_step = by_columns_ ? element_->size : row_bytes_;
  const std::size_t column_step = by_columns_ ? static_cast<std::size_t>(held_) * element_->size : element_->size;
  return {block_.data() + static_cast<std::size_t>(row - first_) * row_step, row_step, column_step};
}

std::size_t ArrayRows::read_part(std::uint64_t element, std::uint8_t* to, std::size_t bytes) const {
  // A header may declare more than 2^64 bytes; then the file ends before.
  if (element > (~std::uint64_t{0} - begin_) / element_->size) return 0;
  return source_->read_at(begin_ + element * element_->size, to, bytes);
}

void ArrayRows::read_block(std::uint64_t row) {
  const std::size_t most = std::max<std::size_t>(most_ / row_bytes_, 1);
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(most, rows_ - row));
  block_.resize(count * row_bytes_);
  first_ = row, held_ = 0;
  if (by_columns_) {
    const std::size_t part = count * element_->size;
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
