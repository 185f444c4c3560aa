// Pages of Parquet files: levels, dictionaries, plain values, and values as cells.
#include "data/readers/parquet_values.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "data/readers/byte_stream.h"
#include "formats/parquet_encodings.h"
#include "formats/snappy.h"

namespace mlx::data {
namespace {

using formats::ParquetCodec;
using formats::ParquetColumn;
using formats::ParquetEncoding;
using formats::ParquetMeaning;
using formats::ParquetPage;
using formats::ParquetPageKind;
using formats::ParquetType;

constexpr std::size_t kLargestPage = std::size_t{256} << 20;
constexpr std::size_t kLargestDictionary = std::size_t{4} << 20;  // values, which take 40 bytes each
constexpr std::size_t kSnappyRatio = 22;                          // three bytes stand for at most 64
constexpr std::size_t kUsualHeader = 4096, kLargestHeader = 1 << 20;
constexpr int kJulianDayOf1970 = 2440588;

void set_int(Cell& cell, std::int64_t value) {
  cell.form = Cell::Form::kInt;
  cell.integer = value;
}
void set_float(Cell& cell, double value) {
  cell.form = std::isnan(value) ? Cell::Form::kNull : Cell::Form::kFloat;
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

// A value of up to eight bytes that is an integer by its type.
void integer_cell(const ParquetColumn& column, std::int64_t value, Cell& cell, std::string& text) {
  switch (column.meaning) {
    case ParquetMeaning::kUnsigned:
      if (column.type == ParquetType::kInt32) return set_int(cell, static_cast<std::uint32_t>(value));
      if (value < 0) return set_float(cell, static_cast<double>(static_cast<std::uint64_t>(value)));
      return set_int(cell, value);
    case ParquetMeaning::kDecimal:
      return set_float(cell, decimal_number(value, column.scale));
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

const char* name_of(ParquetCodec codec) {
  constexpr const char* kNames[] = {"none", "Snappy", "gzip", "LZO", "Brotli", "LZ4", "zstd", "LZ4"};
  return kNames[static_cast<std::size_t>(codec)];
}

}  // namespace

void HybridReader::begin_run() {
  const auto byte = [&] {
    if (at_ >= bytes_.size()) fail(ErrorKind::kCorrupt, "a page has fewer values than it says");
    return bytes_[at_++];
  };
  std::uint64_t head = 0;
  for (int shift = 0;; shift += 7) {
    const std::uint8_t part = byte();
    if (shift > 28) fail(ErrorKind::kCorrupt, "a run of values has an impossible length");
    head |= std::uint64_t{part & 0x7fu} << shift;
    if (part < 0x80) break;
  }
  packed_ = (head & 1) != 0;
  if (packed_) {
    // Writers may leave out what the last group does not need.
    const std::uint64_t groups = head >> 1, bytes = bytes_.size() - at_;
    const std::uint64_t size = std::min<std::uint64_t>(groups * static_cast<std::uint64_t>(width_), bytes);
    left_ =
        width_ == 0 ? groups * 8 : std::min<std::uint64_t>(groups * 8, size * 8 / static_cast<std::uint64_t>(width_));
    bit_ = at_ * 8;
    at_ += static_cast<std::size_t>(size);
  } else {
    left_ = head >> 1;
    value_ = 0;
    for (int bits = 0; bits < width_; bits += 8) value_ |= static_cast<std::uint32_t>(byte()) << bits;
  }
  if (left_ == 0) fail(ErrorKind::kCorrupt, "a run of values is empty");
}

std::uint32_t HybridReader::next() {
  if (left_ == 0) begin_run();
  --left_;
  if (!packed_) return value_;
  const std::size_t first = bit_ / 8;
  std::uint64_t bits = 0;  // at most 7 + 32 of them are needed
  std::memcpy(&bits, bytes_.data() + first, std::min<std::size_t>(sizeof bits, bytes_.size() - first));
  bits >>= bit_ % 8;
  bit_ += static_cast<std::size_t>(width_);
  return static_cast<std::uint32_t>(bits & ((std::uint64_t{1} << width_) - 1));
}

bool ParquetValues::can_read(const ParquetColumn& column) {
  if (column.nested || column.meaning == ParquetMeaning::kOther) return false;
  if (column.type == ParquetType::kFixedBytes) return column.meaning == ParquetMeaning::kDecimal && column.length <= 16;
  return true;
}

void ParquetValues::damaged(const std::string& why) const {
  fail(ErrorKind::kCorrupt, "column '{}': {}", column_.name, why);
}

void ParquetValues::open(const formats::ParquetChunk& chunk) {
  codec_ = chunk.codec;
  at_ = chunk.begin, end_ = chunk.begin + chunk.size;
  left_in_chunk_ = chunk.values, left_in_page_ = 0;
  dictionary_.clear();
}

ParquetPage ParquetValues::read_header() {
  const auto parsed = [&](std::size_t size) {
    Bytes head(static_cast<std::size_t>(std::min<std::uint64_t>(size, end_ - at_)));
    head.resize(source_.read_at(at_, head.data(), head.size()));
    return formats::parse_parquet_page(head);
  };
  try {
    return parsed(kUsualHeader);
  } catch (const Error& error) {  // it may hold long statistics
    if (error.kind != ErrorKind::kCorrupt) throw;
    return parsed(kLargestHeader);
  }
}

// Reads pages until one has values.
void ParquetValues::read_page() {
  while (left_in_page_ == 0) {
    if (at_ >= end_) damaged("the file is cut off, or has fewer values than it says");
    begin_page(read_header());
  }
}

void ParquetValues::begin_page(const ParquetPage& page) {
  at_ += page.header_size;
  if (page.stored_size > end_ - at_) damaged("a page lies outside of its column");
  if (page.stored_size > kLargestPage || page.plain_size > kLargestPage)
    damaged(fmt::format("a page has more than {}", format_bytes(kLargestPage)));
  if (page.kind == ParquetPageKind::kDictionary) {
    begin_dictionary(page);
  } else if (page.kind != ParquetPageKind::kIndex) {
    begin_data(page);
  }
  at_ += page.stored_size;
}

// The page's bytes after decompression; the levels of a second kind of page are never compressed.
Bytes ParquetValues::plain_bytes(const ParquetPage& page) {
  Bytes stored(page.stored_size);
  if (source_.read_at(at_, stored.data(), stored.size()) != stored.size()) damaged("the file is cut off");
  const bool second = page.kind == ParquetPageKind::kDataV2;
  const std::size_t before = second ? page.levels_size + page.repeated_size : 0;
  if (before > stored.size() || before > page.plain_size) damaged("a page has impossible levels");
  if (codec_ == ParquetCodec::kPlain || (second && !page.compressed)) {
    if (stored.size() != page.plain_size) damaged("a page has another size than it says");
    return stored;
  }
  const ByteView packed = ByteView(stored).subspan(before);
  if (page.plain_size == before) return Bytes(stored.begin(), stored.begin() + static_cast<std::ptrdiff_t>(before));
  if (codec_ == ParquetCodec::kSnappy) {
    if ((page.plain_size - before) / kSnappyRatio > packed.size()) damaged("a page is shorter than it says");
    Bytes plain(page.plain_size);
    std::copy_n(stored.data(), before, plain.data());
    formats::unpack_snappy(packed, std::span(plain).subspan(before));
    return plain;
  }
  if (codec_ != ParquetCodec::kGzip && codec_ != ParquetCodec::kZstd)
    throw Error(ErrorKind::kUsage,
                fmt::format("column '{}': {} compression is not read", column_.name, name_of(codec_)),
                "write the file with Snappy, gzip, zstd or none");
  const auto read = [&](std::uint64_t offset, void* data, std::size_t count) {
    const auto from = static_cast<std::size_t>(std::min<std::uint64_t>(offset, packed.size()));
    const std::size_t got = std::min(count, packed.size() - from);
    std::memcpy(data, packed.data() + from, got);
    return got;
  };
  if (!is_compressed(packed)) damaged(fmt::format("a page is not {}", name_of(codec_)));
  const std::unique_ptr<ByteStream> stream = open_stream(read, fmt::format("column '{}'", column_.name));
  // Memory grows with what is really there, not with what the page says.
  Bytes plain(stored.begin(), stored.begin() + static_cast<std::ptrdiff_t>(before));
  while (plain.size() < page.plain_size) {
    const std::size_t done = plain.size();
    plain.resize(std::min(page.plain_size, done + std::max(done, 8 * stored.size() + kUsualHeader)));
    if (stream->read(plain.data() + done, plain.size() - done) != plain.size() - done)
      damaged("a page is shorter than it says");
  }
  return plain;
}

ByteView ParquetValues::take(std::size_t count) {
  if (count > values_.size()) damaged("a page has fewer values than it says");
  const ByteView out = values_.first(count);
  values_ = values_.subspan(count);
  return out;
}

void ParquetValues::begin_data(const ParquetPage& page) {
  if (page.values > left_in_chunk_) damaged("the pages have more values than the column");
  page_ = plain_bytes(page);
  values_ = page_;
  bit_ = 0;
  has_levels_ = column_.optional;
  if (page.kind == ParquetPageKind::kDataV2) {
    (void)take(page.repeated_size);
    levels_ = HybridReader(take(page.levels_size), 1);
  } else if (has_levels_) {
    levels_ = HybridReader(take(load_little_endian<std::uint32_t>(take(4).data())), 1);
  }
  begin_values(page);
  left_in_page_ = page.values;
}

void ParquetValues::begin_values(const ParquetPage& page) {
  const ParquetEncoding encoding = page.encoding;
  indexed_ = encoding == ParquetEncoding::kPlainDictionary || encoding == ParquetEncoding::kRleDictionary;
  runs_ = encoding == ParquetEncoding::kRle && column_.type == ParquetType::kBoolean;
  if (indexed_) {
    const int width = values_.empty() ? 0 : take(1)[0];
    if (width > 32) damaged("indices have an impossible width");
    indices_ = HybridReader(values_, width);
  } else if (runs_) {
    indices_ = HybridReader(take(load_little_endian<std::uint32_t>(take(4).data())), 1);
  } else if (encoding == ParquetEncoding::kDeltaBinaryPacked || encoding == ParquetEncoding::kDeltaLengthByteArray ||
             encoding == ParquetEncoding::kDeltaByteArray || encoding == ParquetEncoding::kByteStreamSplit) {
    // A page whose values are all null may have no bytes for them.
    decoded_ = values_.empty() ? Bytes()
                               : formats::plain_parquet_values(encoding, values_, column_, page.values, kLargestPage);
    values_ = decoded_;
  } else if (encoding != ParquetEncoding::kPlain) {
    throw Error(ErrorKind::kUsage,
                fmt::format("column '{}': values in Parquet's encoding {} are not read", column_.name,
                            static_cast<int>(encoding)),
                "write the file with another encoding (pyarrow's default)");
  }
}

void ParquetValues::begin_dictionary(const ParquetPage& page) {
  dictionary_page_ = plain_bytes(page);
  values_ = dictionary_page_;
  bit_ = 0;
  if (page.values > dictionary_page_.size()) damaged("a dictionary has fewer values than it says");
  if (page.values > kLargestDictionary)
    damaged(fmt::format("a dictionary has more than {} values", kLargestDictionary));
  dictionary_.clear();
  dictionary_texts_.clear();
  dictionary_.resize(page.values);
  std::string text;
  for (Cell& cell : dictionary_) {
    text.clear();
    read_plain(cell, text);
    if (!text.empty()) cell.text = dictionary_texts_.emplace_back(std::move(text));
  }
}

// Reads the next plain value; `text` is what the cell points to unless that stands in the page.
void ParquetValues::read_plain(Cell& cell, std::string& text) {
  if (column_.type == ParquetType::kBoolean) {
    if (bit_ / 8 >= values_.size()) damaged("a page has fewer values than it says");
    const bool value = (values_[bit_ / 8] >> (bit_ % 8) & 1) != 0;
    ++bit_;
    cell.form = Cell::Form::kBool;
    cell.text = value ? "true" : "false";
    return;
  }
  const bool sized = column_.type == ParquetType::kByteArray;
  const std::size_t size = sized ? load_little_endian<std::uint32_t>(take(4).data()) : size_of_value(column_);
  const ByteView raw = take(size);
  switch (column_.type) {
    case ParquetType::kInt32:
      return integer_cell(column_, static_cast<std::int32_t>(load_little_endian<std::uint32_t>(raw.data())), cell,
                          text);
    case ParquetType::kInt64:
      return integer_cell(column_, static_cast<std::int64_t>(load_little_endian<std::uint64_t>(raw.data())), cell,
                          text);
    case ParquetType::kFloat:
      return set_float(cell, std::bit_cast<float>(load_little_endian<std::uint32_t>(raw.data())));
    case ParquetType::kDouble:
      return set_float(cell, std::bit_cast<double>(load_little_endian<std::uint64_t>(raw.data())));
    case ParquetType::kInt96: {  // nanoseconds of the day and the Julian day, as older writers have it
      const auto nanoseconds = load_little_endian<std::uint64_t>(raw.data());
      const std::int64_t day = load_little_endian<std::uint32_t>(raw.data() + 8);
      const std::string date = date_text(day - kJulianDayOf1970);
      if (date.empty() || nanoseconds / 1000000000 >= 86400) damaged("an impossible time");
      text = date + "T" + clock_text(static_cast<std::int64_t>(nanoseconds), 1000000000);
      return set_text(cell, text);
    }
    default:
      break;
  }
  if (column_.meaning == ParquetMeaning::kDecimal) {
    if (raw.size() > 16) damaged("a decimal has more than 38 digits");
    return set_float(cell, decimal_number(big_endian(raw), column_.scale));
  }
  if (!is_utf8(as_text(raw))) damaged("text that is not UTF-8");
  set_text(cell, as_text(raw));
}

void ParquetValues::next(Cell& cell) {
  if (left_in_page_ == 0) read_page();
  --left_in_page_, --left_in_chunk_;
  if (has_levels_ && levels_.next() == 0) {
    cell.form = Cell::Form::kNull;
    cell.text = {};
  } else if (indexed_) {
    const std::uint32_t at = indices_.next();
    if (at >= dictionary_.size()) damaged("an index outside of the dictionary");
    const std::uint32_t column = cell.column;
    cell = dictionary_[at];
    cell.column = column;
  } else if (runs_) {
    cell.form = Cell::Form::kBool;
    cell.text = indices_.next() != 0 ? "true" : "false";
  } else {
    read_plain(cell, text_);
  }
}

void ParquetValues::skip(std::uint64_t count) {
  while (count > 0) {
    if (left_in_page_ == 0) {
      if (at_ >= end_) damaged("the file is cut off, or has fewer values than it says");
      const ParquetPage page = read_header();
      const bool data = page.kind == ParquetPageKind::kData || page.kind == ParquetPageKind::kDataV2;
      if (data && page.values <= count && page.values <= left_in_chunk_) {
        at_ += page.header_size + page.stored_size;
        count -= page.values, left_in_chunk_ -= page.values;
      } else {
        begin_page(page);
      }
      continue;
    }
    Cell cell;
    next(cell);
    --count;
  }
}

}  // namespace mlx::data
