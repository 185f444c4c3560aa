// The bytes of packs as structures: entry headers, index records and footers (mlx-format-pack(5)). Used by the pack
// writer, the pack reader and the index over many packs; nothing here touches a disk.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"

namespace mlx::store {

enum class ObjectKind : std::uint8_t { kChunk = 1, kChunkList = 2, kManifest = 3, kShard = 4, kOperation = 5 };
std::string_view name_of(ObjectKind kind);        // "chunk", "manifest" …
using ObjectRef = std::pair<ObjectKind, Digest>;  // by plain id

inline constexpr std::uint64_t kTargetPackSize = std::uint64_t{64} << 20;
inline constexpr std::uint32_t kMaxPlainSize = std::uint32_t{64}
                                               << 20;  // of one object: bounds what a lying pack can make us allocate
inline constexpr std::size_t kPackHeaderSize = 16;
inline constexpr std::string_view kEntryMagic = "MLXE";
inline constexpr std::size_t kEntryHeaderSize = 64;
inline constexpr std::size_t kRecordSize = 64;
inline constexpr std::size_t kFanoutSize = 256 * 4;
inline constexpr std::size_t kFooterSize = 64;

enum class Encoding : std::uint8_t { kRaw = 0, kZstd = 1, kDelta = 2, kPlanes = 3 };

// The longest extra bytes of any encoding: a delta's name the storage id of its base.
inline constexpr std::size_t kDeltaExtraSize = 32;

// The first eight bytes of SHA-256 of the stored bytes, little-endian.
std::uint64_t stored_checksum(ByteView stored);
std::uint64_t checksum_of_digest(const Digest& digest);

// The key of an object in packs, indexes and remotes: its storage id, which is its id unless it is encrypted.
struct ObjectKey {
  Digest id;  // storage id
  ObjectKind kind;
  bool operator==(const ObjectKey&) const = default;
  bool operator<(const ObjectKey& other) const { return id != other.id ? id < other.id : kind < other.kind; }
};
struct ObjectKeyHash {
  std::size_t operator()(const ObjectKey& key) const {
    return DigestHash()(key.id) ^ static_cast<std::size_t>(key.kind);
  }
};

// Where and how one object is stored; `offset` is that of the stored bytes in the pack.
struct PackRecord {
  ObjectKey key;
  std::uint64_t offset = 0;
  std::uint64_t checksum = 0;
  std::uint32_t stored_size = 0;
  std::uint32_t plain_size = 0;
  Encoding encoding = Encoding::kRaw;
  std::uint16_t extra_size = 0;
  std::uint32_t key_id = 0;
  bool operator==(const PackRecord&) const = default;
};

// An object as it is stored, ready to be written to any pack.
struct StoredObject {
  ObjectKey key;
  Encoding encoding = Encoding::kRaw;
  std::uint32_t key_id = 0;
  std::uint32_t plain_size = 0;
  std::uint64_t checksum = 0;
  Bytes stored;
  Bytes extra;  // what the encoding needs besides: for a delta the storage id of its base, else nothing
  std::uint32_t came_under = 0;  // in memory only: the key id under which an encrypted remote kept it, or 0
};

// Its index record, with offset 0.
PackRecord record_of(const StoredObject& object);
// The base chunk of a delta; nullopt for other encodings. kCorrupt if `extra` does not fit the encoding.
std::optional<ObjectKey> base_of(const StoredObject& object);

Bytes pack_header();
void check_pack_header(ByteView header, const std::string& path);
Bytes entry_header(const StoredObject& object);
// The record of an entry header at `offset` of its pack; nullopt if it is not a valid header.
std::optional<PackRecord> decode_entry_header(ByteView header, std::uint64_t offset);
// kCorrupt unless the header (64 bytes) agrees with the record.
void check_entry_header(ByteView header, const PackRecord& record, const std::string& path);

struct PackFooter {
  std::uint64_t index_offset = 0;
  std::uint64_t records = 0;
  Digest index_digest;  // the pack's id
};
// Encodes fanout and records (sorted here), then the footer. They will be written at `index_offset`.
Bytes encode_pack_index(std::vector<PackRecord>& records, std::uint64_t index_offset, Digest* pack_id);
PackFooter decode_footer(ByteView footer, std::uint64_t file_size, const std::string& path);

void encode_fanout(ByteWriter& out, const std::vector<PackRecord>& sorted);
void encode_record(ByteWriter& out, const PackRecord& record);

// A sorted table of records in memory that the caller owns: a pack's trailing index, or the records of
// multi.idx.
class RecordTable {
 public:
  RecordTable() = default;
  // `bytes` is fanout and records; kCorrupt if the fanout does not fit the count. Records are checked as they are
  // read.
  RecordTable(ByteView bytes, std::uint64_t records, std::string what);
  std::uint64_t size() const { return size_; }
  // kCorrupt on an unknown kind or encoding or sizes out of bounds.
  PackRecord at(std::uint64_t index) const;
  // The index of the record, or size() if there is none.
  std::uint64_t find(const ObjectKey& key) const;
  std::uint32_t fanout(std::size_t byte) const;

 private:
  int compare(std::uint64_t index, const ObjectKey& key) const;
  ByteView fanout_, records_;
  std::uint64_t size_ = 0;
  std::string what_;
};

}  // namespace mlx::store
