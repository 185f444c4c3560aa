// A chunk list has its file's id, so only the file's content shows that it is the right list. No list stands in a store
// unless it was made there, or makes its file.
#include "store/pack/received_packs.h"

#include <fcntl.h>

#include <algorithm>

#include "base/error.h"
#include "store/format/chunk_list.h"
#include "store/pack/cipher.h"
#include "store/pack/store_state.h"

namespace mlx::store {

namespace {

// Larger files are hashed one by one, with all cores for each.
constexpr std::uint64_t kLargeReceived = std::uint64_t{16} << 20;

// A pack that is written and not yet published.
struct NewPack {
  NewPack(const std::string& temporary, const Digest& id)
      : path(temporary), index(temporary, id), fd(open_file(temporary, O_RDONLY)) {}
  std::string path;
  PackIndex index;
  Fd fd;

  void read(std::uint64_t offset, std::size_t size, Bytes& bytes) const {
    bytes.resize(size);
    if (read_at(fd.get(), bytes.data(), bytes.size(), offset, path) != bytes.size())
      fail(ErrorKind::kIo, "{}: offset {}: cannot read back what was written", path, offset);
  }
  void read(const PackRecord& record, Bytes& stored) const { read(record.offset, record.stored_size, stored); }
};

// The new packs, searched before the store.
class ReceivedPacks {
 public:
  ReceivedPacks(const StoreState& store, const KeyRing* ring) : store_(store), ring_(ring) {}
  void add(const std::string& temporary, const Digest& id) { packs_.emplace_back(temporary, id); }

  void check_packs() const {
    Bytes stored, plain;
    for (const NewPack& pack : packs_) {
      pack.index.verify(pack.path);
      for (std::uint64_t i = 0; i < pack.index.table().size(); ++i) {
        const PackRecord record = pack.index.table().at(i);
        pack.read(record, stored);
        check_stored(record, stored, pack.path);
        if (record.encoding != Encoding::kDelta || record.key_id != 0) continue;
        store_.codecs.lend()->decode(record, stored, plain, pack.path, read_base());
      }
    }
  }

  void check_lists(const std::vector<ReceivedList>& lists) const {
    std::vector<ReceivedList> large;
    std::mutex mutex;
    store_.pool.run(static_cast<std::int64_t>(lists.size()), [&](std::int64_t i) {
      const auto& list = lists[static_cast<std::size_t>(i)];
      if (check_list(list.first, list.second, kLargeReceived)) return;
      std::lock_guard lock(mutex);
      large.push_back(list);
    });
    for (const auto& [file, key] : large) check_list(file, key, UINT64_MAX);
  }

 private:
  // False, without a check, for a file of more than `most` bytes.
  bool check_list(const Digest& file, const ObjectKey& key, std::uint64_t most) const {
    const std::string what = fmt::format("chunk list of {}", file.brief());
    Bytes bytes;
    if (!read_new(key, file, bytes, {})) fail(ErrorKind::kIo, "{}: is not where it was written", what);
    const ChunkList list = decode_chunk_list(bytes, what);
    if (list.size > most) return false;
    const ReadChunk read = [&](const Digest& chunk, Bytes& plain) {
      store_.options.interruption->check();
      read_chunk(chunk, plain, what);
    };
    if (hash_whole(list, read, store_.pool, what) == file) return true;
    throw Error(ErrorKind::kCorrupt, fmt::format("{}: the chunks that it names are not the file", what),
                "whoever stored it there was wrong or lied; `mlx push --repair` from a whole clone replaces it");
  }

  void read_chunk(const Digest& id, Bytes& plain, const std::string& what) const {
    if (read_new_chunk(id, plain, read_base())) return;
    try {
      store_.read_part(id, plain);
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kNotFound) throw;
      fail(ErrorKind::kCorrupt, "{}: chunk {} is neither here nor among the received objects", what, id.brief());
    }
  }

  // A base is stored whole, in the new packs or in the store.
  ReadBase read_base() const {
    return [this](const Digest& id) {
      Bytes plain;
      if (!read_new_chunk(id, plain, {})) return store_.read_base()(id);
      if (Digest::of(plain) == id) return plain;
      fail(ErrorKind::kCorrupt, "chunk {}: damaged where it was written", id.brief());
    };
  }

  bool read_new_chunk(const Digest& id, Bytes& plain, const ReadBase& base) const {
    if (read_new({id, ObjectKind::kChunk}, id, plain, base)) return true;
    return ring_ && std::ranges::any_of(ring_->keys(), [&](const DomainKey& key) {
             return read_new({storage_id(key, id), ObjectKind::kChunk}, id, plain, base);
           });
  }

  // Reads from the new packs, without comparing the id; false if none of them holds it.
  bool read_new(const ObjectKey& key, const Digest& id, Bytes& plain, const ReadBase& base) const {
    for (const NewPack& pack : packs_) {
      const std::uint64_t at = pack.index.table().find(key);
      if (at == pack.index.table().size()) continue;
      const PackRecord record = pack.index.table().at(at);
      Bytes stored;
      pack.read(record, stored);
      if (record.key_id == 0) {
        store_.codecs.lend()->decode_unidentified(record, stored, plain, pack.path, base);
        return true;
      }
      if (!ring_) fail(ErrorKind::kCorrupt, "{}: object {} is encrypted", pack.path, key.id.brief());
      StoredObject sealed{key, record.encoding, record.key_id, record.plain_size, record.checksum, std::move(stored),
                          {}};
      pack.read(record.offset - record.extra_size, record.extra_size, sealed.extra);
      const StoredObject opened = open_object(*ring_, id, sealed, pack.path);
      store_.codecs.lend()->decode_unidentified(record_of(opened), opened.stored, plain, pack.path, base);
      return true;
    }
    return false;
  }

  const StoreState& store_;
  const KeyRing* ring_;
  std::vector<NewPack> packs_;
};

}  // namespace

void verify_received(const StoreState& store, const KeyRing* ring, const std::vector<ReceivedPack>& packs,
                     const std::vector<ReceivedList>& lists) {
  ReceivedPacks received(store, ring);
  for (const ReceivedPack& pack : packs) received.add(pack.temporary, pack.id);
  received.check_packs();
  received.check_lists(lists);
}

}  // namespace mlx::store
