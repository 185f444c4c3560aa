// Pages of Parquet files: unpacking, levels, dictionaries, and values in batches.
#include "data/readers/parquet_values.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "formats/snappy.h"

namespace mlx::data {
namespace {

using formats::ParquetCodec;
using formats::ParquetColumn;
using formats::ParquetEncoding;
using formats::ParquetMeaning;
using formats::ParquetPage;
using formats::ParquetPageKind;
using formats::ParquetRuns;
using formats::ParquetType;

constexpr std::size_t kLargestPage = std::size_t{256} << 20;
constexpr std::size_t kLargestDictionary = std::size_t{4} << 20;  // values, which take up to 40 bytes each
constexpr std::size_t kSnappyRatio = 22;                          // three bytes stand for at most 64
constexpr std::size_t kUsualPage = 1 << 20;                       // bytes that are set aside whatever stands in it
constexpr std::size_t kDirectBatches = 8;                         // that are read at once
constexpr std::size_t kUsualHeader = 4096, kLargestHeader = 1 << 20;
const char* name_of(ParquetCodec codec) {
  constexpr const char* kNames[] = {"none", "Snappy", "gzip", "LZO", "Brotli", "LZ4", "zstd", "LZ4"};
  return kNames[static_cast<std::size_t>(codec)];
}

}  // namespace

bool ParquetValues::can_read(const ParquetColumn& column) {
  if (column.nested || column.meaning == ParquetMeaning::kOther) return false;
  if (column.type == ParquetType::kFixedBytes) return column.meaning == ParquetMeaning::kDecimal && column.length <= 16;
  return true;
}

void ParquetValues::open(const formats::ParquetChunk& chunk) {
  codec_ = chunk.codec;
  at_ = chunk.begin, end_ = chunk.begin + chunk.size;
  left_in_chunk_ = chunk.values, left_in_page_ = 0, in_chunk_ = 0;
  next_ = end_of_batch_ = 0;
  dictionary_size_ = 0;
}

ParquetPage ParquetValues::read_header() {
  const auto parsed = [&](std::size_t size) {
    Bytes head(static_cast<std::size_t>(std::min<std::uint64_t>(size, end_ - at_)));
    head.resize(pages_.source.read_at(at_, head.data(), head.size()));
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
    if (at_ >= end_) fail_in_column(column_, "the file is cut off, or has fewer values than it says");
    begin_page(read_header());
  }
}

void ParquetValues::begin_page(const ParquetPage& page) {
  at_ += page.header_size;
  if (page.stored_size > end_ - at_) fail_in_column(column_, "a page lies outside of its column");
  if (page.stored_size > kLargestPage || page.plain_size > kLargestPage)
    fail_in_column(column_, fmt::format("a page has more than {}", format_bytes(kLargestPage)));
  if (page.kind == ParquetPageKind::kDictionary) {
    begin_dictionary(page);
  } else if (page.kind != ParquetPageKind::kIndex) {
    begin_data(page);
  }
  at_ += page.stored_size;
}

bool ParquetValues::is_packed(const ParquetPage& page) const {
  return codec_ != ParquetCodec::kPlain && (page.kind != ParquetPageKind::kDataV2 || page.compressed);
}

// The page's bytes after decompression; the levels of a second kind of page are never compressed.
void ParquetValues::unpack(const ParquetPage& page, Bytes& plain) {
  const bool second = page.kind == ParquetPageKind::kDataV2;
  const bool packed = is_packed(page);
  Bytes& stored = packed ? pages_.stored : plain;
  stored.resize(page.stored_size);
  read_stored(at_, stored.data(), stored.size());
  const std::size_t before = second ? page.levels_size + page.repeated_size : 0;
  if (before > stored.size() || before > page.plain_size) fail_in_column(column_, "a page has impossible levels");
  if (!packed) {
    if (stored.size() != page.plain_size) fail_in_column(column_, "a page has another size than it says");
    return;
  }
  const ByteView values = ByteView(stored).subspan(before);
  const auto begin = [&](std::size_t size) {
    plain.resize(size);
    std::copy_n(stored.data(), before, plain.data());
    return std::span(plain).subspan(before);
  };
  if (page.plain_size == before) {
    (void)begin(before);
    return;
  }
  if (codec_ == ParquetCodec::kSnappy) {
    if ((page.plain_size - before) / kSnappyRatio > values.size())
      fail_in_column(column_, "a page is shorter than it says");
    return formats::unpack_snappy(values, begin(page.plain_size));
  }
  if (codec_ != ParquetCodec::kGzip && codec_ != ParquetCodec::kZstd)
    throw Error(ErrorKind::kUsage,
                fmt::format("column '{}': {} compression is not read", column_.name, name_of(codec_)),
                "write the file with Snappy, gzip, zstd or none");
  if (!is_compressed(values)) fail_in_column(column_, fmt::format("a page is not {}", name_of(codec_)));
  const bool usual = codec_ == ParquetCodec::kZstd && page.plain_size <= std::max(kUsualPage, 8 * stored.size());
  if (usual && pages_.zstd.unpack(values, begin(page.plain_size))) return;
  (void)begin(before);
  unpack_stream(page, before, plain);
}

// For gzip, for pages that say they are large, and for damage. Memory grows with what is really there, not with what
// the page says.
void ParquetValues::unpack_stream(const ParquetPage& page, std::size_t before, Bytes& plain) {
  const ByteView packed = ByteView(pages_.stored).subspan(before);
  const auto read = [&](std::uint64_t offset, void* data, std::size_t count) {
    const auto from = static_cast<std::size_t>(std::min<std::uint64_t>(offset, packed.size()));
    const std::size_t got = std::min(count, packed.size() - from);
    std::memcpy(data, packed.data() + from, got);
    return got;
  };
  const std::unique_ptr<ByteStream> stream = open_stream(read, fmt::format("column '{}'", column_.name));
  while (plain.size() < page.plain_size) {
    const std::size_t done = plain.size();
    plain.resize(std::min(page.plain_size, done + std::max(done, 8 * pages_.stored.size() + kUsualHeader)));
    if (stream->read(plain.data() + done, plain.size() - done) != plain.size() - done)
      fail_in_column(column_, "a page is shorter than it says");
  }
}

// Numbers that stand in the file as in memory are read when they are wanted, straight to where they are decoded. Of
// such a page only the levels are unpacked. False for all others.
bool ParquetValues::begin_direct(const ParquetPage& page) {
  const bool second = page.kind == ParquetPageKind::kDataV2;
  const bool as_in_memory =
      column_.type == ParquetType::kDouble || (column_.type == ParquetType::kInt64 && form_ == ParquetForm::kIntegers);
  if (is_packed(page) || !as_in_memory || page.encoding != ParquetEncoding::kPlain ||
      page.stored_size != page.plain_size || !pages_.source.reads_anywhere())
    return false;
  std::uint64_t levels = second ? page.levels_size + page.repeated_size : 0;
  if (!second && has_levels_) {
    std::array<std::uint8_t, sizeof(std::uint32_t)> size{};
    if (pages_.source.read_at(at_, size.data(), size.size()) != size.size()) return false;
    levels = size.size() + load_little_endian<std::uint32_t>(size.data());
  }
  if (levels > page.stored_size) return false;
  page_.resize(static_cast<std::size_t>(levels));
  read_stored(at_, page_.data(), page_.size());
  unread_.direct = at_ + levels, end_of_direct_ = at_ + page.stored_size;
  return true;
}

void ParquetValues::read_stored(std::uint64_t at, void* to, std::size_t size) const {
  if (pages_.source.read_at(at, to, size) != size) fail_in_column(column_, "the file is cut off");
}

void ParquetValues::read_direct(std::size_t count) {
  const std::size_t size = count * sizeof(double);
  if (size > end_of_direct_ - unread_.direct) fail_in_column(column_, "a page has fewer values than it says");
  const auto read = [&](auto& values) {
    values.resize(count);
    read_stored(unread_.direct, values.data(), size);
  };
  form_ == ParquetForm::kIntegers ? read(batch_.integers) : read(batch_.floats);
  unread_.direct += size;
}

void ParquetValues::begin_data(const ParquetPage& page) {
  has_levels_ = column_.optional;
  if (page.values > left_in_chunk_) fail_in_column(column_, "the pages have more values than the column");
  direct_ = begin_direct(page);
  if (!direct_) unpack(page, page_);
  unread_.plain = ParquetPlainReader(column_, page_);
  ParquetPlainReader& bytes = unread_.plain;
  if (page.kind == ParquetPageKind::kDataV2) {
    (void)bytes.take(page.repeated_size);
    unread_.levels = ParquetRuns(bytes.take(page.levels_size), 1);
  } else if (has_levels_) {
    unread_.levels = ParquetRuns(bytes.take(load_little_endian<std::uint32_t>(bytes.take(4).data())), 1);
  }
  begin_values(page);
  left_in_page_ = page.values;
}

void ParquetValues::begin_values(const ParquetPage& page) {
  const ParquetEncoding encoding = page.encoding;
  const bool boolean = column_.type == ParquetType::kBoolean;
  ParquetPlainReader& bytes = unread_.plain;
  indexed_ = encoding == ParquetEncoding::kPlainDictionary || encoding == ParquetEncoding::kRleDictionary;
  runs_ = encoding == ParquetEncoding::kRle && boolean;
  bits_ = encoding == ParquetEncoding::kPlain && boolean;
  if (indexed_) {
    const int width = bytes.rest().empty() ? 0 : bytes.take(1)[0];
    if (width > 32) fail_in_column(column_, "indices have an impossible width");
    unread_.indices = ParquetRuns(bytes.rest(), width);
  } else if (runs_) {
    unread_.indices = ParquetRuns(bytes.take(load_little_endian<std::uint32_t>(bytes.take(4).data())), 1);
  } else if (encoding == ParquetEncoding::kDeltaBinaryPacked || encoding == ParquetEncoding::kDeltaLengthByteArray ||
             encoding == ParquetEncoding::kDeltaByteArray || encoding == ParquetEncoding::kByteStreamSplit) {
    // A page whose values are all null may have no bytes for them.
    decoded_ = bytes.rest().empty()
                   ? Bytes()
                   : formats::plain_parquet_values(encoding, bytes.rest(), column_, page.values, kLargestPage);
    bytes = ParquetPlainReader(column_, decoded_);
  } else if (encoding != ParquetEncoding::kPlain) {
    throw Error(ErrorKind::kUsage,
                fmt::format("column '{}': values in Parquet's encoding {} are not read", column_.name,
                            static_cast<int>(encoding)),
                "write the file with another encoding (pyarrow's default)");
  }
}

// A null cell follows the dictionary's.
void ParquetValues::begin_dictionary(const ParquetPage& page) {
  Bytes& bytes = form_ == ParquetForm::kCells ? dictionary_page_ : pages_.dictionary;
  unpack(page, bytes);
  if (page.values > bytes.size()) fail_in_column(column_, "a dictionary has fewer values than it says");
  if (page.values > kLargestDictionary)
    fail_in_column(column_, fmt::format("a dictionary has more than {} values", kLargestDictionary));
  dictionary_size_ = 0;
  ParquetPlainReader(column_, bytes).read(page.values, dictionary_);
  dictionary_size_ = page.values;
  if (form_ == ParquetForm::kCells) dictionary_.cells.push_back(null_cell());
  ++dictionary_number_;
}

// The values before a damaged one are handed out first; it fails when it is decoded alone.
void ParquetValues::decode() {
  if (next_ < end_of_batch_) return;
  if (left_in_page_ == 0) read_page();
  const std::size_t most = direct_ ? kDirectBatches * most_ : most_;
  std::uint64_t count = std::min<std::uint64_t>(left_in_page_, most - in_chunk_ % most);
  for (;; count /= 2) {
    const Unread before = unread_;
    try {
      decode_batch(static_cast<std::size_t>(count));
      break;
    } catch (const Error&) {
      if (count == 1) throw;
      unread_ = before;
    }
  }
  next_ = 0, end_of_batch_ = static_cast<std::size_t>(count);
  left_in_page_ -= count, left_in_chunk_ -= count, in_chunk_ += count;
}

void ParquetValues::decode_batch(std::size_t count) {
  const std::size_t present = has_levels_ ? decode_levels(count) : count;
  all_present_ = present == count;
  if (indexed_ || runs_ || bits_)
    decode_indices(present);
  else if (direct_)
    read_direct(present);
  else
    unread_.plain.read(present, batch_);
  if (!all_present_) spread(count, present);
}

// Tells which values are present, and returns how many are.
std::size_t ParquetValues::decode_levels(std::size_t count) {
  if (unread_.levels.pass(count, 1)) return count;
  codes_.resize(count);
  present_.resize(count);
  unread_.levels.read(codes_);
  std::size_t present = 0;
  for (std::size_t i = 0; i < count; ++i) {
    present_[i] = codes_[i] != 0;
    present += present_[i];
  }
  return present;
}

// Integers and floats are looked up here, cells by whoever wants them.
void ParquetValues::decode_indices(std::size_t count) {
  codes_.resize(count);
  if (bits_) {
    for (std::uint32_t& code : codes_) code = unread_.plain.next_bit();
    return;
  }
  unread_.indices.read(codes_);
  if (runs_) {
    for (std::uint32_t& code : codes_) code = code != 0;
    return;
  }
  const auto checked = [this, size = dictionary_size_](std::uint32_t code) {
    if (code >= size) fail_in_column(column_, "an index outside of the dictionary");
    return code;
  };
  const auto look_up = [&](const auto& values, auto& to) {
    to.resize(count);
    std::ranges::transform(codes_, to.data(), [&, from = values.data()](auto code) { return from[checked(code)]; });
  };
  if (form_ == ParquetForm::kIntegers) return look_up(dictionary_.integers, batch_.integers);
  if (form_ == ParquetForm::kFloats) return look_up(dictionary_.floats, batch_.floats);
  for (const std::uint32_t code : codes_) (void)checked(code);
}

// Moves the values that are present to their rows, from the last on.
void ParquetValues::spread(std::size_t count, std::size_t present) {
  const auto move = [&](auto& values, const auto& none) {
    values.resize(count);
    for (std::size_t row = count, from = present; row-- > 0;) values[row] = present_[row] ? values[--from] : none;
  };
  if (form_ == ParquetForm::kIntegers) return move(batch_.integers, std::int64_t{0});
  if (form_ == ParquetForm::kFloats) return move(batch_.floats, std::numeric_limits<double>::quiet_NaN());
  if (indexed_) return move(codes_, static_cast<std::uint32_t>(dictionary_size_));
  if (runs_ || bits_) return move(codes_, std::uint32_t{2});
  move(batch_.cells, null_cell());
}

ColumnBlock ParquetValues::block() const {
  static const std::array<Cell, 3> kBooleans = {bool_cell(false), bool_cell(true), null_cell()};
  ColumnBlock block;
  if (form_ == ParquetForm::kIntegers) {
    block.integers = batch_.integers.data() + next_;
    if (!all_present_) block.present = present_.data() + next_;
  } else if (form_ == ParquetForm::kFloats) {
    block.floats = batch_.floats.data() + next_;
  } else if (indexed_ || runs_ || bits_) {
    block.codes = codes_.data() + next_;
    block.cells = indexed_ ? dictionary_.cells.data() : kBooleans.data();
    block.count = indexed_ ? dictionary_.cells.size() : kBooleans.size();
    block.dictionary = indexed_ ? dictionary_number_ : 0;
  } else {
    block.cells = batch_.cells.data() + next_;
  }
  return block;
}

// Pages without a value that is wanted are not unpacked.
void ParquetValues::skip(std::uint64_t count) {
  while (count > 0) {
    if (decoded() == 0 && left_in_page_ == 0) {
      if (at_ >= end_) fail_in_column(column_, "the file is cut off, or has fewer values than it says");
      const ParquetPage page = read_header();
      const bool data = page.kind == ParquetPageKind::kData || page.kind == ParquetPageKind::kDataV2;
      if (data && page.values <= count && page.values <= left_in_chunk_) {
        at_ += page.header_size + page.stored_size;
        count -= page.values, left_in_chunk_ -= page.values, in_chunk_ += page.values;
      } else {
        begin_page(page);
      }
      continue;
    }
    decode();
    const auto passed = std::min<std::uint64_t>(count, decoded());
    pass(static_cast<std::size_t>(passed));
    count -= passed;
  }
}

}  // namespace mlx::data
