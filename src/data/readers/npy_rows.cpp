// Elements of NumPy's types, and blocks of rows in both orders.
#include "data/readers/npy_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"

namespace mlx::data {
namespace {

constexpr std::uint64_t kLongestHead = 1 << 20;
constexpr std::size_t kBlockOfRows = 256 * 1024;  // bytes, at least one row
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

struct NpyElement {
  const char* descr;
  std::size_t size;
  ReadElement read;
};
namespace {
constexpr NpyElement kElements[] = {
    {"|b1", 1, read_bool},
    {"|i1", 1, read_integer<std::int8_t>},
    {"|u1", 1, read_integer<std::uint8_t>},
    {"<i2", 2, read_integer<std::int16_t>},
    {"<u2", 2, read_integer<std::uint16_t>},
    {"<i4", 4, read_integer<std::int32_t>},
    {"<u4", 4, read_integer<std::uint32_t>},
    {"<i8", 8, read_integer<std::int64_t>},
    {"<u8", 8, read_u64},
    {"<f2", 2, read_f16},
    {"<f4", 4, read_f32},
    {"<f8", 8, read_f64},
};

const NpyElement* element_of(const formats::NpyHeader& header) {
  const auto found = std::ranges::find(kElements, header.descr, &NpyElement::descr);
  return found == std::end(kElements) ? nullptr : &*found;
}
}  // namespace

formats::NpyHeader read_npy_header(const Source& source) {
  return formats::parse_npy(read_head(source, kLongestHead + 12));
}

std::string why_no_table(const formats::NpyHeader& header) {
  if (!element_of(header)) return fmt::format("elements of type '{}', expected little-endian numbers", header.descr);
  if (header.shape.empty() || header.shape.size() > 2)
    return fmt::format("an array of {} dimensions, a table has one or two", header.shape.size());
  if (header.shape.size() == 2 && header.shape[1] > static_cast<std::int64_t>(kMostColumns))
    return fmt::format("{} columns, more than a table may have", header.shape[1]);
  return {};
}

NpyRows::NpyRows(std::unique_ptr<Source> source) : source_(std::move(source)) {
  const formats::NpyHeader header = read_npy_header(*source_);
  if (const std::string why = why_no_table(header); !why.empty()) fail(ErrorKind::kCorrupt, "npy: {}", why);
  element_ = element_of(header);
  begin_ = header.data_begin;
  rows_ = static_cast<std::uint64_t>(header.shape[0]);
  two_dimensions_ = header.shape.size() == 2;
  width_ = two_dimensions_ ? static_cast<std::size_t>(header.shape[1]) : 1;
  by_columns_ = header.fortran_order && width_ > 1;
  row_bytes_ = width_ * element_->size;
  if (width_ == 0) rows_ = 0;
}

void NpyRows::read(std::uint64_t row, Cell* cells) {
  if (row < first_ || row - first_ >= held_) read_block(row);
  const auto at = static_cast<std::size_t>(row - first_);
  const std::size_t size = element_->size;
  const std::uint8_t* from = block_.data() + at * (by_columns_ ? size : row_bytes_);
  const std::size_t step = by_columns_ ? static_cast<std::size_t>(held_) * size : size;
  for (std::size_t i = 0; i < width_; ++i) element_->read(from + i * step, cells[i]);
}

std::size_t NpyRows::read_part(std::uint64_t element, std::uint8_t* to, std::size_t bytes) const {
  // A header may declare more than 2^64 bytes; then the file ends before.
  if (element > (~std::uint64_t{0} - begin_) / element_->size) return 0;
  return source_->read_at(begin_ + element * element_->size, to, bytes);
}

void NpyRows::read_block(std::uint64_t row) {
  const std::size_t most = std::max<std::size_t>((by_columns_ ? kBlockOfColumns : kBlockOfRows) / row_bytes_, 1);
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
