// Encoding and bounds-checked decoding of what packs are made of (mlx-format-pack(5)).
#include "store/format/pack_format.h"

#include <algorithm>

#include "base/error.h"

namespace mlx::store {

namespace {

constexpr std::string_view kPackMagic = "MLXPACK\n";
constexpr std::string_view kFooterMagic = "MLXINDEX";
constexpr std::uint32_t kPackVersion = 1;

void check_pack_version(std::uint32_t version, const std::string& path) {
  if (version == kPackVersion) return;
  throw Error(ErrorKind::kCorrupt,
              fmt::format("{}: pack of format version {}, this mlx knows {}", path, version, kPackVersion),
              "if a newer mlx wrote it, upgrade this one");
}

}  // namespace

std::string_view name_of(ObjectKind kind) {
  switch (kind) {
    case ObjectKind::kChunk:
      return "chunk";
    case ObjectKind::kChunkList:
      return "chunk list";
    case ObjectKind::kManifest:
      return "manifest";
    case ObjectKind::kShard:
      return "manifest shard";
    case ObjectKind::kOperation:
      return "operation";
  }
  return "object";
}

std::size_t extra_size_of(Encoding encoding) {
  return encoding == Encoding::kDelta ? kDeltaExtraSize : 0;
}

PackRecord record_of(const StoredObject& object) {
  PackRecord record;
  record.key = object.key;
  record.checksum = object.checksum;
  record.stored_size = static_cast<std::uint32_t>(object.stored.size());
  record.plain_size = object.plain_size;
  record.encoding = object.encoding;
  record.extra_size = static_cast<std::uint16_t>(object.extra.size());
  record.key_id = object.key_id;
  return record;
}

std::optional<ObjectKey> base_of(const StoredObject& object) {
  if (object.extra.size() != extra_size_of(object.encoding)) {
    fail(ErrorKind::kCorrupt, "object {}: has extra bytes that its encoding does not have", object.key.id.brief());
  }
  if (object.encoding != Encoding::kDelta) return {};
  return ObjectKey{Digest::from(object.extra), ObjectKind::kChunk};
}

std::uint64_t checksum_of_digest(const Digest& digest) {
  return load_little_endian<std::uint64_t>(digest.bytes.data());
}
std::uint64_t stored_checksum(ByteView stored) {
  return checksum_of_digest(Digest::of(stored));
}

Bytes pack_header() {
  ByteWriter out;
  out.raw(as_bytes(kPackMagic));
  out.u32(kPackVersion);
  out.u32(kSha256Number);
  return out.take();
}

void check_pack_header(ByteView header, const std::string& path) {
  if (header.size() < kPackHeaderSize || as_text(header.first(8)) != kPackMagic) {
    fail(ErrorKind::kCorrupt, "{}: not a pack: wrong magic", path);
  }
  check_pack_version(load_little_endian<std::uint32_t>(header.data() + 8), path);
  if (load_little_endian<std::uint32_t>(header.data() + 12) != kSha256Number) {
    fail(ErrorKind::kCorrupt, "{}: offset 12: unknown hash algorithm", path);
  }
}

Bytes entry_header(const StoredObject& object) {
  ByteWriter out;
  out.raw(as_bytes(kEntryMagic));
  out.u8(static_cast<std::uint8_t>(object.key.kind));
  out.u8(static_cast<std::uint8_t>(object.encoding));
  out.u16(static_cast<std::uint16_t>(object.extra.size()));
  out.u32(object.key_id);
  out.u32(static_cast<std::uint32_t>(object.stored.size()));
  out.u32(object.plain_size);
  out.u32(0);
  out.u64(object.checksum);
  out.raw(object.key.id.bytes);
  return out.take();
}

std::optional<PackRecord> decode_entry_header(ByteView header, std::uint64_t offset) {
  PackRecord record;
  auto kind = header[4];
  auto encoding = header[5];
  if (as_text(header.first(4)) != kEntryMagic || kind < static_cast<std::uint8_t>(ObjectKind::kChunk) ||
      kind > static_cast<std::uint8_t>(ObjectKind::kOperation) ||
      encoding > static_cast<std::uint8_t>(Encoding::kPlanes)) {
    return {};
  }
  record.key.kind = static_cast<ObjectKind>(kind);
  record.encoding = static_cast<Encoding>(encoding);
  record.extra_size = load_little_endian<std::uint16_t>(header.data() + 6);
  record.key_id = load_little_endian<std::uint32_t>(header.data() + 8);
  record.stored_size = load_little_endian<std::uint32_t>(header.data() + 12);
  record.plain_size = load_little_endian<std::uint32_t>(header.data() + 16);
  record.checksum = load_little_endian<std::uint64_t>(header.data() + 24);
  record.key.id = Digest::from(header.subspan(32, 32));
  record.offset = offset + kEntryHeaderSize + record.extra_size;
  bool possible = record.extra_size == extra_size_of(record.encoding) && record.plain_size <= kMaxPlainSize &&
                  record.stored_size <= kMaxPlainSize + kMaxPlainSize / 8;
  if (!possible) return {};
  return record;
}

void check_entry_header(ByteView header, const PackRecord& record, const std::string& path) {
  StoredObject expected{record.key, record.encoding,         record.key_id, record.plain_size, record.checksum,
                        {},         Bytes(record.extra_size)};
  Bytes bytes = entry_header(expected);
  ByteWriter stored;
  stored.u32(record.stored_size);
  std::copy(stored.bytes().begin(), stored.bytes().end(), bytes.begin() + 12);
  if (header.size() != bytes.size() || !std::equal(bytes.begin(), bytes.end(), header.begin())) {
    fail(ErrorKind::kCorrupt, "{}: offset {}: entry header differs from the index", path,
         record.offset - record.extra_size - kEntryHeaderSize);
  }
}

void encode_fanout(ByteWriter& out, const std::vector<PackRecord>& sorted) {
  std::uint32_t counts[256] = {};
  for (const PackRecord& record : sorted) ++counts[record.key.id.bytes[0]];
  std::uint32_t sum = 0;
  for (std::uint32_t count : counts) out.u32(sum += count);
}

void encode_record(ByteWriter& out, const PackRecord& record) {
  out.raw(record.key.id.bytes);
  out.u64(record.offset);
  out.u64(record.checksum);
  out.u32(record.stored_size);
  out.u32(record.plain_size);
  out.u8(static_cast<std::uint8_t>(record.key.kind));
  out.u8(static_cast<std::uint8_t>(record.encoding));
  out.u16(record.extra_size);
  out.u32(record.key_id);
}

Bytes encode_pack_index(std::vector<PackRecord>& records, std::uint64_t index_offset, Digest* pack_id) {
  std::sort(records.begin(), records.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  ByteWriter out;
  encode_fanout(out, records);
  for (const PackRecord& record : records) encode_record(out, record);
  *pack_id = Digest::of(out.bytes());
  out.u64(index_offset);
  out.u64(records.size());
  out.raw(pack_id->bytes);
  out.u32(kPackVersion);
  out.u32(0);
  out.raw(as_bytes(kFooterMagic));
  return out.take();
}

PackFooter decode_footer(ByteView footer, std::uint64_t file_size, const std::string& path) {
  if (footer.size() != kFooterSize || as_text(footer.subspan(56)) != kFooterMagic) {
    fail(ErrorKind::kCorrupt, "{}: has no footer: cut short, or not a pack", path);
  }
  PackFooter out;
  out.index_offset = load_little_endian<std::uint64_t>(footer.data());
  out.records = load_little_endian<std::uint64_t>(footer.data() + 8);
  out.index_digest = Digest::from(footer.subspan(16, 32));
  check_pack_version(load_little_endian<std::uint32_t>(footer.data() + 48), path);
  if (load_little_endian<std::uint32_t>(footer.data() + 52) != 0)
    fail(ErrorKind::kCorrupt, "{}: reserved bytes are not 0", path);
  std::uint64_t room = file_size - kFooterSize;
  if (out.records > room / kRecordSize || out.index_offset < kPackHeaderSize || out.index_offset > room ||
      room - out.index_offset != kFanoutSize + out.records * kRecordSize) {
    fail(ErrorKind::kCorrupt, "{}: its footer names an index that does not fit the file", path);
  }
  return out;
}

RecordTable::RecordTable(ByteView bytes, std::uint64_t records, std::string what)
    : size_(records), what_(std::move(what)) {
  if (bytes.size() < kFanoutSize || records != (bytes.size() - kFanoutSize) / kRecordSize ||
      (bytes.size() - kFanoutSize) % kRecordSize != 0) {
    fail(ErrorKind::kCorrupt, "{}: its index has the wrong size", what_);
  }
  fanout_ = bytes.first(kFanoutSize);
  records_ = bytes.subspan(kFanoutSize);
  std::uint32_t previous = 0;
  for (std::size_t i = 0; i < 256; ++i) {
    if (fanout(i) < previous) fail(ErrorKind::kCorrupt, "{}: its index's fanout is not sorted", what_);
    previous = fanout(i);
  }
  if (previous != records) fail(ErrorKind::kCorrupt, "{}: its index's fanout does not fit its records", what_);
}

std::uint32_t RecordTable::fanout(std::size_t byte) const {
  return load_little_endian<std::uint32_t>(fanout_.data() + 4 * byte);
}

PackRecord RecordTable::at(std::uint64_t index) const {
  const std::uint8_t* at = records_.data() + index * kRecordSize;
  PackRecord record;
  std::memcpy(record.key.id.bytes.data(), at, 32);
  record.offset = load_little_endian<std::uint64_t>(at + 32);
  record.checksum = load_little_endian<std::uint64_t>(at + 40);
  record.stored_size = load_little_endian<std::uint32_t>(at + 48);
  record.plain_size = load_little_endian<std::uint32_t>(at + 52);
  std::uint8_t kind = at[56];
  std::uint8_t encoding = at[57];
  record.extra_size = load_little_endian<std::uint16_t>(at + 58);
  record.key_id = load_little_endian<std::uint32_t>(at + 60);
  if (kind < static_cast<std::uint8_t>(ObjectKind::kChunk) ||
      kind > static_cast<std::uint8_t>(ObjectKind::kOperation)) {
    fail(ErrorKind::kCorrupt, "{}: record {} has the unknown kind {}", what_, index, kind);
  }
  if (encoding > static_cast<std::uint8_t>(Encoding::kPlanes)) {
    fail(ErrorKind::kCorrupt, "{}: record {} has the unknown encoding {}", what_, index, encoding);
  }
  if (record.extra_size != extra_size_of(static_cast<Encoding>(encoding))) {
    fail(ErrorKind::kCorrupt, "{}: record {} has extra bytes that its encoding does not have", what_, index);
  }
  record.key.kind = static_cast<ObjectKind>(kind);
  record.encoding = static_cast<Encoding>(encoding);
  if (record.plain_size > kMaxPlainSize || record.stored_size > kMaxPlainSize + kMaxPlainSize / 8) {
    fail(ErrorKind::kCorrupt, "{}: record {} names an object larger than {}", what_, index,
         format_bytes(kMaxPlainSize));
  }
  if (record.offset < kPackHeaderSize + kEntryHeaderSize + record.extra_size) {
    fail(ErrorKind::kCorrupt, "{}: record {} points into the pack's header", what_, index);
  }
  return record;
}

int RecordTable::compare(std::uint64_t index, const ObjectKey& key) const {
  const std::uint8_t* at = records_.data() + index * kRecordSize;
  if (int order = std::memcmp(at, key.id.bytes.data(), 32)) return order;
  return static_cast<int>(at[56]) - static_cast<int>(key.kind);
}

std::uint64_t RecordTable::find(const ObjectKey& key) const {
  if (size_ == 0) return size_;
  std::size_t first = key.id.bytes[0];
  std::uint64_t low = first == 0 ? 0 : fanout(first - 1);
  std::uint64_t high = fanout(first);
  while (low < high) {
    std::uint64_t middle = low + (high - low) / 2;
    int order = compare(middle, key);
    if (order == 0) return middle;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return size_;
}

}  // namespace mlx::store
