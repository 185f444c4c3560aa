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

using ReadElement = void (*)(const std::uint8_t* at, Cell& cell);

template <typename T>
void read_integer(const std::uint8_t* at, Cell& cell) {
  const auto bits = load_little_endian<std::make_unsigned_t<T>>(at);
  cell.form = Cell::Form::kInt;
  const T value = static_cast<T>(bits);
  cell.integer = std::int64_t{value};
}
void read_u64(const std::uint8_t* at, Cell& cell) {
  const auto value = load_little_endian<std::uint64_t>(at);
  if (value >> 63 == 0) return read_integer<std::int64_t>(at, cell);
  cell.form = Cell::Form::kFloat;
  cell.number = static_cast<double>(value);
}
void set_number(Cell& cell, double number) {
  cell.form = std::isnan(number) ? Cell::Form::kNull : Cell::Form::kFloat;
  cell.number = number;
}
void read_f16(const std::uint8_t* at, Cell& cell) {
  set_number(cell, half_to_double(load_little_endian<std::uint16_t>(at)));
}
void read_bf16(const std::uint8_t* at, Cell& cell) {
  set_number(cell, std::bit_cast<float>(std::uint32_t{load_little_endian<std::uint16_t>(at)} << 16));
}
void read_f32(const std::uint8_t* at, Cell& cell) {
  set_number(cell, std::bit_cast<float>(load_little_endian<std::uint32_t>(at)));
}
void read_f64(const std::uint8_t* at, Cell& cell) {
  set_number(cell, std::bit_cast<double>(load_little_endian<std::uint64_t>(at)));
}
void read_bool(const std::uint8_t* at, Cell& cell) {
  cell.form = Cell::Form::kBool;
  cell.text = *at ? "true" : "false";
}

}  // namespace

struct ArrayElement {
  std::string_view descr;  // of npy
  std::string_view dtype;  // of safetensors
  std::size_t size;
  ReadElement read;
};
namespace {
constexpr ArrayElement kElements[] = {
    {"|b1", "BOOL", 1, read_bool},
    {"|i1", "I8", 1, read_integer<std::int8_t>},
    {"|u1", "U8", 1, read_integer<std::uint8_t>},
    {"<i2", "I16", 2, read_integer<std::int16_t>},
    {"<u2", "U16", 2, read_integer<std::uint16_t>},
    {"<i4", "I32", 4, read_integer<std::int32_t>},
    {"<u4", "U32", 4, read_integer<std::uint32_t>},
    {"<i8", "I64", 8, read_integer<std::int64_t>},
    {"<u8", "U64", 8, read_u64},
    {"<f2", "F16", 2, read_f16},
    {"", "BF16", 2, read_bf16},
    {"<f4", "F32", 4, read_f32},
    {"<f8", "F64", 8, read_f64},
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

void ArrayRows::read(std::uint64_t row, Cell* cells) {
  if (row < first_ || row - first_ >= held_) read_block(row);
  const auto at = static_cast<std::size_t>(row - first_);
  const std::size_t size = element_->size;
  const std::uint8_t* from = block_.data() + at * (by_columns_ ? size : row_bytes_);
  const std::size_t step = by_columns_ ? static_cast<std::size_t>(held_) * size : size;
  for (std::size_t i = 0; i < width_; ++i) element_->read(from + i * step, cells[i]);
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
