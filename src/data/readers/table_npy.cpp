// Arrays of NumPy as tables: one or two dimensions of numbers, a row for each index of the first. Columns are named 1,
// 2, 3 ….
#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "data/readers/table_format.h"
#include "formats/npy.h"

namespace mlx::data {
namespace {

constexpr std::uint64_t kLongestHead = 1 << 20;
constexpr std::size_t kBlockOfRows = 256 * 1024;  // bytes, at least one row

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

struct Element {
  const char* descr;
  std::size_t size;
  ReadElement read;
};
constexpr Element kElements[] = {
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

class NpyReader final : public TableReader {
 public:
  explicit NpyReader(std::unique_ptr<Source> source) : source_(std::move(source)) {
    const formats::NpyHeader header = formats::parse_npy(read_head(*source_, kLongestHead + 12));
    const auto found = std::ranges::find(kElements, header.descr, &Element::descr);
    if (found == std::end(kElements))
      fail(ErrorKind::kCorrupt, "npy: elements of type '{}', expected little-endian numbers", header.descr);
    if (header.shape.empty() || header.shape.size() > 2)
      fail(ErrorKind::kCorrupt, "npy: an array of {} dimensions, a table has one or two", header.shape.size());
    if (header.fortran_order && header.shape.size() == 2 && header.shape[0] > 1 && header.shape[1] > 1)
      throw Error(ErrorKind::kCorrupt, "npy: the array is stored column by column",
                  "numpy.ascontiguousarray() stores it row by row");
    element_ = &*found;
    begin_ = header.data_begin;
    rows_ = static_cast<std::uint64_t>(header.shape[0]);
    const std::int64_t width = header.shape.size() == 2 ? header.shape[1] : 1;
    if (width > static_cast<std::int64_t>(kMostColumns))
      fail(ErrorKind::kCorrupt, "npy: {} columns, more than a table may have", width);
    for (std::int64_t i = 0; i < width; ++i) columns_.push_back(std::to_string(i + 1));
    row_bytes_ = columns_.size() * element_->size;
    if (columns_.empty()) rows_ = 0;
  }

  bool next(Row& row) override {
    if (row_ == rows_) return false;
    if (row_ < first_ || row_ - first_ >= held_) read_block();
    const std::uint8_t* at = block_.data() + static_cast<std::size_t>(row_ - first_) * row_bytes_;
    row.offset = row_++;
    row.cells.resize(columns_.size());
    for (std::size_t i = 0; i < columns_.size(); ++i, at += element_->size) {
      row.cells[i].column = static_cast<std::uint32_t>(i);
      element_->read(at, row.cells[i]);
    }
    return true;
  }

  void seek(std::uint64_t offset) override { row_ = std::min(offset, rows_); }
  const std::vector<std::string>& columns() const override { return columns_; }
  std::string no_header() const override { return "npy files have no names of columns"; }

 private:
  void read_block() {
    const std::size_t most = std::max<std::size_t>(kBlockOfRows / row_bytes_, 1);
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(most, rows_ - row_));
    block_.resize(count * row_bytes_);
    const std::size_t got = source_->read_at(begin_ + row_ * row_bytes_, block_.data(), block_.size());
    first_ = row_, held_ = got / row_bytes_;
    if (held_ == 0) fail(ErrorKind::kCorrupt, "row {}: the file is cut off, {} rows are declared", row_ + 1, rows_);
  }

  std::unique_ptr<Source> source_;
  const Element* element_ = nullptr;
  std::uint64_t begin_ = 0, rows_ = 0, row_ = 0;
  std::size_t row_bytes_ = 0;
  std::vector<std::string> columns_;
  Bytes block_;                         // of the rows from first_
  std::uint64_t first_ = 0, held_ = 0;  // held_: whole rows in it
};

}  // namespace

std::unique_ptr<TableReader> read_npy(std::unique_ptr<Source> source) {
  return std::make_unique<NpyReader>(std::move(source));
}

}  // namespace mlx::data
