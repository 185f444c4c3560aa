// Compares headers with the index, looks for gaps, and verifies checksums, decoding and ids: it reads every byte.
#include "store/pack/check_pack.h"

#include <algorithm>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/progress.h"
#include "store/format/chunk_list.h"
#include "store/format/manifest.h"
#include "store/pack/cipher.h"

namespace mlx::store {

namespace {

// The checksum does not cover the extra bytes: they repeat what the stored bytes say.
void check_extra(const PackRecord& record, ByteView pack, const std::string& path) {
  Digest base = delta_base(pack.subspan(record.offset, record.stored_size), path);
  ByteView extra = pack.subspan(record.offset - record.extra_size, record.extra_size);
  if (Digest::from(extra) == base) return;
  fail(ErrorKind::kCorrupt, "{}: offset {}: the base of object {} differs from what its delta says", path,
       record.offset, record.key.id.brief());
}

// Decryption shows that someone with the key wrote the object; only its content shows that it has the right id.
void decrypt(const DomainKey& key, const PackRecord& record, ByteView pack, Codec& codec, const ReadBase& read_base,
             const std::string& path, Bytes& plain) {
  ByteView stored = pack.subspan(record.offset, record.stored_size);
  ByteView extra = pack.subspan(record.offset - record.extra_size, record.extra_size);
  StoredObject sealed{record.key,
                      record.encoding,
                      record.key_id,
                      record.plain_size,
                      record.checksum,
                      Bytes(stored.begin(), stored.end()),
                      Bytes(extra.begin(), extra.end())};
  codec.decode_unidentified(record, open_sealed(key, sealed, path), plain, path, read_base);
  if (record.key.kind == ObjectKind::kChunkList || storage_id(key, Digest::of(plain)) == record.key.id) return;
  fail(ErrorKind::kCorrupt, "{}: offset {}: object {} is damaged (content differs from its id)", path, record.offset,
       record.key.id.brief());
}

// False if it is encrypted and its key is not here: then only its checksum was verified.
bool check_object(const PackRecord& record, ByteView pack, std::uint64_t data_end, Codec& codec,
                  const ReadBase& read_base, const KeyRing* ring, const std::string& path, Bytes& plain) {
  if (record.offset > data_end || record.stored_size > data_end - record.offset) {
    fail(ErrorKind::kCorrupt, "{}: offset {}: object {} reaches into the index", path, record.offset,
         record.key.id.brief());
  }
  std::uint64_t header = record.offset - record.extra_size - kEntryHeaderSize;
  check_entry_header(pack.subspan(header, kEntryHeaderSize), record, path);
  ByteView stored = pack.subspan(record.offset, record.stored_size);
  check_stored(record, stored, path);
  if (record.key_id != 0) {
    const DomainKey* key = ring ? ring->find(record.key_id) : nullptr;
    if (!key) return false;
    decrypt(*key, record, pack, codec, read_base, path, plain);
  } else {
    codec.decode(record, stored, plain, path, read_base);
    if (record.encoding == Encoding::kDelta) check_extra(record, pack, path);
  }
  if (record.key.kind == ObjectKind::kManifest) decode_root(plain);
  if (record.key.kind == ObjectKind::kShard) decode_shard(plain);
  if (record.key.kind == ObjectKind::kChunkList) decode_chunk_list(plain, path);
  return true;
}

}  // namespace

PackCheck check_pack(const std::string& path, const Digest& id, Codec& codec, const ReadBase& read_base,
                     const KeyRing* ring, const Interruption& interruption) {
  PackCheck result;
  try {
    PackIndex index(path, id);
    index.verify(path);
    MappedFile file(path);
    std::uint64_t data_end = index.footer().index_offset;
    std::vector<PackRecord> records;
    for (std::uint64_t i = 0; i < index.table().size(); ++i) {
      records.push_back(index.table().at(i));
      if (i > 0 && !(records[i - 1].key < records[i].key)) {
        fail(ErrorKind::kCorrupt, "{}: its index is not sorted", path);
      }
    }
    std::sort(records.begin(), records.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
    std::uint64_t expected = kPackHeaderSize;  // where the next entry begins
    Bytes plain;
    for (const PackRecord& record : records) {
      interruption.check();
      ++result.objects;
      result.bytes += record.stored_size;
      try {
        if (record.offset - record.extra_size - kEntryHeaderSize != expected) {
          result.problems.push_back(
              fmt::format("{}: offset {}: bytes that no entry holds, or that two hold", path, expected));
        }
        expected = record.offset + record.stored_size;
        if (!check_object(record, file.bytes(), data_end, codec, read_base, ring, path, plain)) ++result.locked;
        if (record.key.kind == ObjectKind::kChunkList) ++result.lists;
      } catch (const Error& error) {
        if (error.kind == ErrorKind::kIo) {
          result.unread.push_back(error.message);
          continue;
        }
        if (error.kind == ErrorKind::kInterrupted) throw;
        result.problems.push_back(error.message);
        result.damaged.push_back(record.key);
      }
    }
    if (expected != data_end) {
      result.problems.push_back(
          fmt::format("{}: offset {}: bytes between the last entry and the index", path, expected));
    }
  } catch (const Error& error) {
    if (error.kind == ErrorKind::kInterrupted) throw;
    if (error.kind == ErrorKind::kNotFound && !path_exists(path)) return {.gone = true};
    if (error.kind == ErrorKind::kIo) {
      result.unread.push_back(error.message);
      return result;
    }
    result.problems.push_back(error.message);
    result.readable = false;
  }
  return result;
}

std::vector<PackRecord> find_entries(const std::string& path) {
  MappedFile file(path);
  ByteView bytes = file.bytes();
  std::vector<PackRecord> found;
  std::string_view text = as_text(bytes);
  for (std::size_t at = text.find(kEntryMagic); at != std::string_view::npos; at = text.find(kEntryMagic, at + 1)) {
    if (bytes.size() - at < kEntryHeaderSize) break;
    auto record = decode_entry_header(bytes.subspan(at, kEntryHeaderSize), at);
    if (!record || record->offset > bytes.size() || record->stored_size > bytes.size() - record->offset) continue;
    if (stored_checksum(bytes.subspan(record->offset, record->stored_size)) != record->checksum) continue;
    found.push_back(*record);
    at = record->offset + record->stored_size - 1;  // the bytes of an entry contain no other entry
  }
  return found;
}

}  // namespace mlx::store
