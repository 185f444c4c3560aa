// Decodes a whole page at once.
#include "formats/parquet_encodings.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace mlx::formats {
namespace {

[[noreturn]] void bad_page(const char* why) {
  fail(ErrorKind::kCorrupt, "a page of encoded values {}", why);
}

class EncodedPage {
 public:
  EncodedPage(ByteView bytes, std::size_t most_values) : rest_(bytes), most_values_(most_values) {}

  ByteView take(std::size_t count) {
    if (count > rest_.size()) bad_page("is cut off");
    const ByteView taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const std::uint8_t part = take(1)[0];
      value |= std::uint64_t{part & 0x7fu} << shift;
      if (part < 0x80) return value;
    }
    bad_page("has a number of more than 64 bits");
  }
  std::uint64_t zigzag() {
    const std::uint64_t value = varint();
    return value >> 1 ^ (0 - (value & 1));
  }

  // DELTA_BINARY_PACKED. Differences wrap, so that integers of 32 bits are right in their lower half.
  std::vector<std::uint64_t> integers() {
    const std::uint64_t block = varint(), parts = varint(), count = varint();
    std::uint64_t value = zigzag();
    if (parts == 0 || parts > 512 || block % parts != 0 || block / parts % 32 != 0 || block / parts == 0 ||
        block > (1 << 20))
      bad_page("has an impossible block");
    if (count > most_values_) bad_page("has too many values");
    std::vector<std::uint64_t> values;
    values.reserve(static_cast<std::size_t>(std::min<std::uint64_t>(count, 64 * (rest_.size() + 1))));
    if (count > 0) values.push_back(value);
    while (values.size() < count) {
      const std::uint64_t least = zigzag();
      for (const std::uint8_t width : take(static_cast<std::size_t>(parts))) {
        if (values.size() == count) break;  // parts without values are not written
        if (width > 64) bad_page("has an impossible width");
        const auto size = static_cast<std::size_t>(block / parts);
        const ByteView packed = take(size / 8 * width);
        const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(size, count - values.size()));
        for (std::size_t i = 0; i < wanted; ++i) values.push_back(value += least + bits_at(packed, i * width, width));
      }
    }
    return values;
  }

  ByteView rest() const { return rest_; }

 private:
  static std::uint64_t bits_at(ByteView packed, std::size_t bit, unsigned width) {
    if (width == 0) return 0;
    const std::size_t first = bit / 8, shift = bit % 8;
    std::uint64_t bits = 0;
    std::memcpy(&bits, packed.data() + first, std::min<std::size_t>(sizeof bits, packed.size() - first));
    bits >>= shift;
    if (shift + width > 64) bits |= std::uint64_t{packed[first + 8]} << (64 - shift);
    return width == 64 ? bits : bits & ((std::uint64_t{1} << width) - 1);
  }

  ByteView rest_;
  std::size_t most_values_;
};

// Plain values of the column, appended one after the other.
class PlainText {
 public:
  PlainText(const ParquetColumn& column, std::size_t most) : column_(column), most_(most) {}

  // The first `kept` bytes of the value before, then `end`.
  void add(std::uint64_t kept, ByteView end) {
    if (kept > size_) bad_page("repeats more of a value than it has");
    const std::size_t size = static_cast<std::size_t>(kept) + end.size();
    if (size + 4 > most_ - std::min(most_, out_.size())) bad_page("has too many values");
    const bool fixed = column_.type == ParquetType::kFixedBytes;
    if (fixed && size != static_cast<std::size_t>(column_.length)) bad_page("has a value of another length");
    const std::size_t before = out_.size() - size_;
    for (std::size_t i = 0; i < 4 && !fixed; ++i) out_.push_back(static_cast<std::uint8_t>(size >> 8 * i));
    const std::size_t begin = out_.size();
    out_.resize(begin + size);
    std::copy_n(out_.data() + before, static_cast<std::size_t>(kept), out_.data() + begin);
    std::ranges::copy(end, out_.data() + begin + kept);
    size_ = size;
  }
  Bytes take() { return std::move(out_); }

 private:
  const ParquetColumn& column_;
  std::size_t most_, size_ = 0;  // size_: of the last value
  Bytes out_;
};

Bytes delta_integers(ByteView page, const ParquetColumn& column, std::size_t most_values, std::size_t most) {
  const std::size_t size = column.type == ParquetType::kInt32 ? 4 : 8;
  const std::vector<std::uint64_t> values = EncodedPage(page, std::min(most_values, most / size)).integers();
  Bytes out;
  out.reserve(values.size() * size);
  for (const std::uint64_t value : values)
    for (std::size_t i = 0; i < size; ++i) out.push_back(static_cast<std::uint8_t>(value >> 8 * i));
  return out;
}

Bytes delta_texts(ByteView bytes, bool shared_beginnings, const ParquetColumn& column, std::size_t most_values,
                  std::size_t most) {
  EncodedPage page(bytes, most_values);
  const std::vector<std::uint64_t> kept = shared_beginnings ? page.integers() : std::vector<std::uint64_t>();
  const std::vector<std::uint64_t> sizes = page.integers();
  if (shared_beginnings && kept.size() != sizes.size()) bad_page("has two counts of values");
  PlainText out(column, most);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] > page.rest().size()) bad_page("is cut off");
    out.add(shared_beginnings ? kept[i] : 0, page.take(static_cast<std::size_t>(sizes[i])));
  }
  return out.take();
}

Bytes split_streams(ByteView page, const ParquetColumn& column) {
  const bool half = column.type == ParquetType::kInt32 || column.type == ParquetType::kFloat;
  const std::size_t size =
      column.type == ParquetType::kFixedBytes ? static_cast<std::size_t>(column.length) : (half ? 4 : 8);
  if (size == 0 || page.size() % size != 0) bad_page("is cut off");
  const std::size_t count = page.size() / size;
  Bytes out(page.size());
  for (std::size_t byte = 0; byte < size; ++byte)
    for (std::size_t i = 0; i < count; ++i) out[i * size + byte] = page[byte * count + i];
  return out;
}

// Eight numbers of `kWidth` bits stand in as many bytes. Each begins in the first of the eight bytes that are loaded.
template <std::size_t kWidth>
void unpack_groups(const std::uint8_t* from, std::size_t groups, std::uint32_t* out) {
  constexpr std::uint64_t kMask = (std::uint64_t{1} << kWidth) - 1;
  for (; groups > 0; --groups, from += kWidth, out += 8) {
    for (std::size_t i = 0; i < 8; ++i) {
      std::uint64_t bits;
      std::memcpy(&bits, from + i * kWidth / 8, sizeof bits);
      out[i] = static_cast<std::uint32_t>(bits >> i * kWidth % 8 & kMask);
    }
  }
}
using UnpackGroups = void (*)(const std::uint8_t*, std::size_t, std::uint32_t*);
template <std::size_t... kWidths>
constexpr std::array<UnpackGroups, sizeof...(kWidths)> by_width(std::index_sequence<kWidths...>) {
  return {unpack_groups<kWidths>...};
}
constexpr std::array kUnpackGroups = by_width(std::make_index_sequence<33>());

}  // namespace

void ParquetRuns::begin_run() {
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
    const std::uint64_t size = std::min<std::uint64_t>(groups * width_, bytes);
    left_ = width_ == 0 ? groups * 8 : std::min<std::uint64_t>(groups * 8, size * 8 / width_);
    bit_ = at_ * 8;
    at_ += static_cast<std::size_t>(size);
  } else {
    left_ = head >> 1;
    value_ = 0;
    for (std::size_t bits = 0; bits < width_; bits += 8) value_ |= static_cast<std::uint32_t>(byte()) << bits;
  }
  if (left_ == 0) fail(ErrorKind::kCorrupt, "a run of values is empty");
}

void ParquetRuns::read(std::span<std::uint32_t> out) {
  while (!out.empty()) {
    if (left_ == 0) begin_run();
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(left_, out.size()));
    if (packed_)
      unpack(out.first(count));
    else
      std::ranges::fill(out.first(count), value_);
    left_ -= count;
    out = out.subspan(count);
  }
}

bool ParquetRuns::pass(std::size_t count, std::uint32_t value) {
  if (left_ == 0 && count > 0) begin_run();
  if (packed_ || value_ != value || left_ < count) return false;
  left_ -= count;
  return true;
}

// Whole groups where eight bytes can be loaded for each number; before, between and after them number by number.
void ParquetRuns::unpack(std::span<std::uint32_t> out) {
  while (!out.empty()) {
    const std::size_t at = bit_ / 8, last = bytes_.size() - std::min<std::size_t>(bytes_.size(), 8);
    const bool begins = bit_ % 8 == 0 && at + width_ <= last;
    const std::size_t groups = begins ? std::min(out.size() / 8, (last - at) / std::max<std::size_t>(width_, 1)) : 0;
    if (groups > 0)
      kUnpackGroups[width_](bytes_.data() + at, groups, out.data());
    else
      out[0] = number();
    const std::size_t count = groups > 0 ? 8 * groups : 1;
    bit_ += count * width_;
    out = out.subspan(count);
  }
}

std::uint32_t ParquetRuns::number() const {
  std::uint64_t bits = 0;
  if (const std::size_t at = bit_ / 8; at < bytes_.size())
    std::memcpy(&bits, bytes_.data() + at, std::min<std::size_t>(sizeof bits, bytes_.size() - at));
  return static_cast<std::uint32_t>(bits >> bit_ % 8 & ((std::uint64_t{1} << width_) - 1));
}

Bytes plain_parquet_values(ParquetEncoding encoding, ByteView page, const ParquetColumn& column, std::size_t values,
                           std::size_t most) {
  const ParquetType type = column.type;
  const bool integer = type == ParquetType::kInt32 || type == ParquetType::kInt64;
  const bool text = type == ParquetType::kByteArray, fixed = type == ParquetType::kFixedBytes;
  if (encoding == ParquetEncoding::kDeltaBinaryPacked && integer) return delta_integers(page, column, values, most);
  if (encoding == ParquetEncoding::kDeltaLengthByteArray && text) return delta_texts(page, false, column, values, most);
  if (encoding == ParquetEncoding::kDeltaByteArray && (text || fixed))
    return delta_texts(page, true, column, values, most);
  if (encoding == ParquetEncoding::kByteStreamSplit &&
      (integer || fixed || type == ParquetType::kFloat || type == ParquetType::kDouble))
    return split_streams(page, column);
  bad_page("is in an encoding that cannot hold the column's type");
}

}  // namespace mlx::formats
