// Integers, floats, decimals, times and text out of the bytes of PLAIN values.
#include "data/readers/parquet_plain.h"

#include <bit>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/error.h"

namespace mlx::data {
namespace {

using formats::ParquetColumn;
using formats::ParquetMeaning;
using formats::ParquetType;

constexpr int kJulianDayOf1970 = 2440588;

void set_int(Cell& cell, std::int64_t value) {
  cell.form = Cell::Form::kInt;
  cell.integer = value;
}
void set_float(Cell& cell, double value) {
  cell.form = Cell::Form::kFloat;
  cell.number = value;
}
void set_text(Cell& cell, std::string_view text) {
  cell.form = Cell::Form::kText;
  cell.text = text;
}

// "13:45:10", with as many digits of a fraction as the unit has, if it is not 0.
std::string clock_text(std::int64_t ticks, std::int64_t per_second) {
  const std::int64_t seconds = ticks / per_second, fraction = ticks % per_second;
  std::string text = fmt::format("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
  const int digits = per_second == 1000 ? 3 : per_second == 1000000 ? 6 : 9;
  if (fraction != 0) text += fmt::format(".{:0{}}", fraction, digits);
  return text;
}

// Days since 1970 as ISO 8601; "" if the year is beyond what the calendar holds.
std::string date_text(std::int64_t days) {
  constexpr std::int64_t kMost = 3'000'000;
  if (days < -kMost || days > kMost) return {};
  const std::chrono::year_month_day date{std::chrono::sys_days(std::chrono::days(days))};
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                     static_cast<unsigned>(date.day()));
}

std::string timestamp_text(std::int64_t ticks, std::int64_t per_second) {
  const std::int64_t day = 86400 * per_second;
  const std::int64_t rest = ticks % day;
  const std::string date = date_text(ticks / day - (rest < 0 ? 1 : 0));
  return date.empty() ? date : date + "T" + clock_text(rest < 0 ? rest + day : rest, per_second);
}

// Big-endian two's complement, at most 16 bytes.
__extension__ using Int128 = __int128;
__extension__ using UInt128 = unsigned __int128;
Int128 big_endian(ByteView bytes) {
  UInt128 value = !bytes.empty() && bytes[0] >= 0x80 ? ~UInt128{0} : UInt128{0};
  for (const std::uint8_t byte : bytes) value = value << 8 | byte;
  return static_cast<Int128>(value);
}

// The double nearest to value / 10^scale.
double decimal_number(Int128 value, int scale) {
  constexpr std::int64_t kExact = std::int64_t{1} << 53;
  if (value > -kExact && value < kExact && scale <= 22)
    return static_cast<double>(static_cast<std::int64_t>(value)) / std::pow(10.0, scale);
  std::string digits;
  for (UInt128 rest = value < 0 ? UInt128{0} - static_cast<UInt128>(value) : static_cast<UInt128>(value); rest != 0;
       rest /= 10)
    digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(rest % 10)));
  const std::string text = fmt::format("{}{}e-{}", value < 0 ? "-" : "", digits, scale);
  double number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// A time, or an unsigned integer, of up to eight bytes.
void integer_cell(const ParquetColumn& column, std::int64_t value, Cell& cell, std::string& text) {
  switch (column.meaning) {
    case ParquetMeaning::kDate:
      text = date_text(value);
      break;
    case ParquetMeaning::kTime:
      if (value < 0 || value / column.per_second >= 86400) return set_int(cell, value);
      text = clock_text(value, column.per_second);
      break;
    case ParquetMeaning::kTimestamp:
      text = timestamp_text(value, column.per_second);
      break;
    default:
      if (value < 0) return set_float(cell, static_cast<double>(static_cast<std::uint64_t>(value)));
      return set_int(cell, value);
  }
  if (text.empty()) return set_int(cell, value);
  set_text(cell, text);
}

std::size_t size_of_value(const ParquetColumn& column) {
  switch (column.type) {
    case ParquetType::kInt32:
    case ParquetType::kFloat:
      return 4;
    case ParquetType::kInt96:
      return 12;
    case ParquetType::kFixedBytes:
      return static_cast<std::size_t>(column.length);
    default:
      return 8;
  }
}

// Numbers stand in the page as in memory, but not aligned.
template <typename Stored, typename Value>
void convert(ByteView bytes, std::size_t count, Value* to) {
  if constexpr (std::is_same_v<Stored, Value>) {
    if (count > 0) std::memcpy(to, bytes.data(), count * sizeof(Value));
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    Stored value;
    std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
    to[i] = static_cast<Value>(value);
  }
}

}  // namespace

ParquetForm form_of(const ParquetColumn& column) {
  const ParquetMeaning meaning = column.meaning;
  const bool time =
      meaning == ParquetMeaning::kDate || meaning == ParquetMeaning::kTime || meaning == ParquetMeaning::kTimestamp;
  switch (column.type) {
    case ParquetType::kFloat:
    case ParquetType::kDouble:
      return ParquetForm::kFloats;
    case ParquetType::kBoolean:
    case ParquetType::kInt96:
      return ParquetForm::kCells;
    case ParquetType::kInt64:  // beyond 2^63 an unsigned integer is a float
      if (meaning == ParquetMeaning::kUnsigned) return ParquetForm::kCells;
      [[fallthrough]];
    case ParquetType::kInt32:
      if (meaning == ParquetMeaning::kDecimal) return ParquetForm::kFloats;
      return time ? ParquetForm::kCells : ParquetForm::kIntegers;
    default:
      return meaning == ParquetMeaning::kDecimal ? ParquetForm::kFloats : ParquetForm::kCells;
  }
}

void fail_in_column(const ParquetColumn& column, const std::string& why) {
  fail(ErrorKind::kCorrupt, "column '{}': {}", column.name, why);
}

Cell bool_cell(bool value) {
  Cell cell;
  cell.form = Cell::Form::kBool;
  cell.text = value ? "true" : "false";
  return cell;
}

Cell null_cell() {
  Cell cell;
  cell.form = Cell::Form::kNull;
  return cell;
}

ByteView ParquetPlainReader::take(std::size_t count) {
  if (count > bytes_.size()) fail_in_column(*column_, "a page has fewer values than it says");
  const ByteView out = bytes_.first(count);
  bytes_ = bytes_.subspan(count);
  return out;
}

bool ParquetPlainReader::next_bit() {
  if (bit_ / 8 >= bytes_.size()) fail_in_column(*column_, "a page has fewer values than it says");
  const bool value = (bytes_[bit_ / 8] >> (bit_ % 8) & 1) != 0;
  ++bit_;
  return value;
}

void ParquetPlainReader::read(std::size_t count, ParquetPlain& to) {
  switch (form_of(*column_)) {
    case ParquetForm::kIntegers:
      to.integers.resize(count);
      return read_integers(count, to.integers.data());
    case ParquetForm::kFloats:
      to.floats.resize(count);
      return read_floats(count, to.floats.data());
    case ParquetForm::kCells:
      break;
  }
  to.texts.clear();
  to.cells.assign(count, Cell());
  std::string text;
  for (Cell& cell : to.cells) {
    text.clear();
    read_cell(cell, text);
    if (!text.empty()) cell.text = to.texts.emplace_back(std::move(text));
  }
}

void ParquetPlainReader::read_integers(std::size_t count, std::int64_t* to) {
  const ByteView bytes = take(count * size_of_value(*column_));
  if (column_->type == ParquetType::kInt64) return convert<std::int64_t>(bytes, count, to);
  if (column_->meaning == ParquetMeaning::kUnsigned) return convert<std::uint32_t>(bytes, count, to);
  convert<std::int32_t>(bytes, count, to);
}

void ParquetPlainReader::read_floats(std::size_t count, double* to) {
  if (column_->type == ParquetType::kFloat) return convert<float>(take(count * sizeof(float)), count, to);
  if (column_->type == ParquetType::kDouble) return convert<double>(take(count * sizeof(double)), count, to);
  for (std::size_t i = 0; i < count; ++i) to[i] = next_decimal();
}

double ParquetPlainReader::next_decimal() {
  const bool sized = column_->type == ParquetType::kByteArray;
  const ByteView raw = take(sized ? load_little_endian<std::uint32_t>(take(4).data()) : size_of_value(*column_));
  if (column_->type == ParquetType::kInt32)
    return decimal_number(static_cast<std::int32_t>(load_little_endian<std::uint32_t>(raw.data())), column_->scale);
  if (column_->type == ParquetType::kInt64)
    return decimal_number(static_cast<std::int64_t>(load_little_endian<std::uint64_t>(raw.data())), column_->scale);
  if (raw.size() > 16) fail_in_column(*column_, "a decimal has more than 38 digits");
  return decimal_number(big_endian(raw), column_->scale);
}

// `text` is what the cell points to unless that stands in the page.
void ParquetPlainReader::read_cell(Cell& cell, std::string& text) {
  if (column_->type == ParquetType::kBoolean) {
    cell = bool_cell(next_bit());
    return;
  }
  const bool sized = column_->type == ParquetType::kByteArray;
  const ByteView raw = take(sized ? load_little_endian<std::uint32_t>(take(4).data()) : size_of_value(*column_));
  if (column_->type == ParquetType::kInt32)
    return integer_cell(*column_, static_cast<std::int32_t>(load_little_endian<std::uint32_t>(raw.data())), cell, text);
  if (column_->type == ParquetType::kInt64)
    return integer_cell(*column_, static_cast<std::int64_t>(load_little_endian<std::uint64_t>(raw.data())), cell, text);
  if (column_->type == ParquetType::kInt96) return read_time(raw, cell, text);
  if (!is_utf8(as_text(raw))) fail_in_column(*column_, "text that is not UTF-8");
  set_text(cell, as_text(raw));
}

// Nanoseconds of the day and the Julian day, as older writers have it.
void ParquetPlainReader::read_time(ByteView raw, Cell& cell, std::string& text) const {
  const auto nanoseconds = load_little_endian<std::uint64_t>(raw.data());
  const std::int64_t day = load_little_endian<std::uint32_t>(raw.data() + 8);
  const std::string date = date_text(day - kJulianDayOf1970);
  if (date.empty() || nanoseconds / 1000000000 >= 86400) fail_in_column(*column_, "an impossible time");
  text = date + "T" + clock_text(static_cast<std::int64_t>(nanoseconds), 1000000000);
  set_text(cell, text);
}

}  // namespace mlx::data
