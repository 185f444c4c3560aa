// Verification of every byte of every pack: headers against indexes, gaps, checksums, decoding, identity. Reports, and
// throws only where the folder itself cannot be read.
#include <algorithm>

#include "base/error.h"
#include "base/fd.h"
#include "store/chunk_list.h"
#include "store/cipher.h"
#include "store/store_state.h"

namespace mlx::store {

namespace {

// What is known of one pack once it has been read through.
struct PackResult {
  std::uint64_t objects = 0, bytes = 0, locked = 0;
  std::vector<std::string> problems;
  std::vector<Digest> damaged;
  std::vector<Digest> lists;  // chunk lists that are whole
};

// The checksum does not cover the extra bytes: they repeat what the stored bytes say.
void check_extra(const PackRecord& record, ByteView pack, const std::string& path) {
  Digest base = delta_base(pack.subspan(record.offset, record.stored_size), path);
  ByteView extra = pack.subspan(record.offset - record.extra_size, record.extra_size);
  if (Digest::from(extra) == base) return;
  fail(ErrorKind::kCorrupt, "{}: offset {}: the base of object {} differs from what its delta says", path,
       record.offset, record.key.id.brief());
}

// What decrypts was written by someone with the key; that it is what it is called is seen from its content.
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

// False where it is encrypted and there is no key for it: then its checksum is all that was looked at.
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
    if (!ring || !ring->find(record.key_id)) return false;
    decrypt(*ring->find(record.key_id), record, pack, codec, read_base, path, plain);
  } else {
    codec.decode(record, stored, plain, path, read_base);
    if (record.encoding == Encoding::kDelta) check_extra(record, pack, path);
  }
  if (record.key.kind == ObjectKind::kManifest) decode_root(plain);
  if (record.key.kind == ObjectKind::kShard) decode_shard(plain);
  if (record.key.kind == ObjectKind::kChunkList) decode_chunk_list(plain, path);
  return true;
}

PackResult check_pack(const std::string& path, const Digest& id, Codec& codec, const ReadBase& read_base,
                      const KeyRing* ring) {
  PackResult result;
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
      check_interrupted();
      ++result.objects;
      result.bytes += record.stored_size;
      try {
        if (record.offset - record.extra_size - kEntryHeaderSize != expected) {
          result.problems.push_back(
              fmt::format("{}: offset {}: bytes that no entry holds, or that two hold", path, expected));
        }
        expected = record.offset + record.stored_size;
        if (!check_object(record, file.bytes(), data_end, codec, read_base, ring, path, plain)) ++result.locked;
        if (record.key.kind == ObjectKind::kChunkList && record.key_id == 0) result.lists.push_back(record.key.id);
      } catch (const Error& error) {
        if (error.kind == ErrorKind::kInterrupted) throw;
        result.problems.push_back(error.message);
        result.damaged.push_back(record.key.id);
      }
    }
    if (expected != data_end) {
      result.problems.push_back(
          fmt::format("{}: offset {}: bytes between the last entry and the index", path, expected));
    }
  } catch (const Error& error) {
    if (error.kind == ErrorKind::kInterrupted) throw;
    result.problems.push_back(error.message);
  }
  return result;
}

// A chunk list's id is the id of a file, so only the file's content shows that it is the right one. What an interrupted
// fetch has left without all chunks says nothing about damage. A message, or "".
std::string check_list(const Store& store, const Digest& file) {
  if (!store.has_whole_blob(file)) return {};
  try {
    BlobReader reader = store.open_blob(file);
    Sha256 hash;
    Bytes buffer(std::size_t{1} << 20);
    for (std::uint64_t offset = 0; offset < reader.size();) {
      check_interrupted();
      std::size_t count = reader.read_at(offset, buffer.data(), buffer.size());
      hash.update(ByteView(buffer).first(count));
      offset += count;
    }
    if (hash.finish() == file) return {};
    return fmt::format("chunk list of {}: its chunks are not the file's content", file.brief());
  } catch (const Error& error) {
    if (error.kind == ErrorKind::kInterrupted) throw;
    return error.message;
  }
}

// nullptr where nobody can unlock it: checksums are verified all the same.
std::shared_ptr<const KeyRing> unlocked_ring(const Store::State& store) {
  try {
    return store.ring();
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kRefused) throw;
    return nullptr;
  }
}

}  // namespace

FsckReport Store::fsck(Progress& progress) const {
  std::shared_ptr<const Index> index = state_->index();
  std::shared_ptr<const KeyRing> ring = unlocked_ring(*state_);
  std::vector<PackResult> results(index->pack_count());
  progress.begin("Checking packs", results.size(), "packs");
  state_->pool.run(static_cast<std::int64_t>(results.size()), [&](std::int64_t pack) {
    auto i = static_cast<std::size_t>(pack);
    auto codec = state_->codecs.lend();
    results[i] = check_pack(index->pack_path(i), index->pack_id(i), *codec.get(), state_->read_base(), ring.get());
    progress.advance(1);
  });
  progress.end();
  FsckReport report;
  report.packs = results.size();
  for (const PackResult& result : results) {
    report.objects += result.objects;
    report.bytes += result.bytes;
    report.locked += result.locked;
    report.problems.insert(report.problems.end(), result.problems.begin(), result.problems.end());
    report.damaged.insert(report.damaged.end(), result.damaged.begin(), result.damaged.end());
  }
  std::vector<Digest> lists;
  for (const PackResult& result : results) lists.insert(lists.end(), result.lists.begin(), result.lists.end());
  std::vector<std::string> messages(lists.size());
  progress.begin("Checking files", lists.size(), "files");
  state_->pool.run(static_cast<std::int64_t>(lists.size()), [&](std::int64_t i) {
    auto n = static_cast<std::size_t>(i);
    messages[n] = check_list(*this, lists[n]);
    progress.advance(1);
  });
  progress.end();
  for (std::size_t i = 0; i < lists.size(); ++i) {
    if (messages[i].empty()) continue;
    report.problems.push_back(messages[i]);
    report.damaged.push_back(lists[i]);
  }
  std::sort(report.damaged.begin(), report.damaged.end());
  report.damaged.erase(std::unique(report.damaged.begin(), report.damaged.end()), report.damaged.end());
  for (std::string& problem : index->verify_multi()) report.problems.push_back(std::move(problem));
  return report;
}

}  // namespace mlx::store
