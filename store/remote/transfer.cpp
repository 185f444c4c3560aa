// Chunks go before the objects that name them, and whole chunks before deltas. So what was published when a transfer
// was cut short is complete in itself, and the next transfer need not send it again.
#include "store/remote/transfer.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "store/format/chunk_list.h"
#include "store/limits.h"
#include "store/pack/batch.h"
#include "store/pack/store_state.h"

namespace mlx::store {

namespace {

using KeySet = std::unordered_set<ObjectKey, ObjectKeyHash>;
// Plain bytes that an object must have.
using Sizes = std::unordered_map<ObjectKey, std::uint64_t, ObjectKeyHash>;

constexpr const char* kFrom = "the remote";

std::vector<ObjectKey> keys_of(const std::vector<ObjectRef>& objects) {
  std::vector<ObjectKey> keys;
  keys.reserve(objects.size());
  for (const auto& [kind, id] : objects) keys.push_back({id, kind});
  return keys;
}

// The order of publishing: chunks, deltas on them, lists, shards, manifests, operations.
int rank_of(const PackRecord& record) {
  switch (record.key.kind) {
    case ObjectKind::kChunk:
      return record.encoding == Encoding::kDelta ? 1 : 0;
    case ObjectKind::kChunkList:
      return 2;
    case ObjectKind::kShard:
      return 3;
    case ObjectKind::kManifest:
      return 4;
    case ObjectKind::kOperation:
      return 5;
  }
  return 5;
}

struct Outgoing {
  ObjectKey key;
  int rank = 0;
  std::uint64_t size = 0;
};

Outgoing look_up(const StoreState& store, const ObjectKey& key) {
  std::shared_ptr<const Index> picture;
  auto location = store.find(store.key_of(key.kind, key.id), picture);
  if (!location) store.missing(key, *picture);
  return {key, rank_of(location->record), location->record.stored_size};
}

// The bases that deltas among `outgoing` need and the remote lacks.
std::vector<ObjectKey> lacking_bases(const StoreState& store, Remote& remote, const std::vector<Outgoing>& outgoing) {
  KeySet going;
  for (const Outgoing& object : outgoing) going.insert(object.key);
  std::vector<ObjectKey> bases;
  for (const Outgoing& object : outgoing) {
    if (object.rank != 1) continue;
    auto base = base_of(store.read_plain(object.key.kind, object.key.id));
    if (base && going.insert(*base).second) bases.push_back(*base);
  }
  return bases.empty() ? bases : remote.missing(bases);
}

// An encrypted remote decrypts what it hands on. From any other remote no encrypted object was asked for.
void require_opened(const StoredObject& object) {
  if (object.key_id == 0) return;
  fail(ErrorKind::kCorrupt, "{}: {} {} is encrypted, and the remote is not", kFrom, name_of(object.key.kind),
       object.key.id.brief());
}

// Fetches objects a slice at a time; each slice is published as a whole.
class Receiver {
 public:
  Receiver(Remote& remote, Store& to, Progress& progress) : remote_(remote), to_(to), progress_(progress) {}
  std::uint64_t objects() const { return objects_; }
  std::uint64_t bytes() const { return bytes_; }
  void add(std::uint64_t bytes) { bytes_ += bytes; }

  // Those of `wanted`, which are not here, and the bases of deltas among them.
  void receive(std::vector<ObjectKey> wanted, Sizes sizes) {
    std::unique_ptr<Batch> batch = to_.begin();
    Batch& packs = *batch;
    KeySet asked(wanted.begin(), wanted.end());
    std::vector<ObjectKey> bases;
    std::mutex mutex;
    const auto take = [&](StoredObject&& object) {
      bytes_ += object.stored.size();
      {
        std::lock_guard lock(mutex);
        check_size(object, sizes);
        ++objects_;
        if (auto base = base_of(object); base && asked.insert(*base).second) {
          bases.push_back(*base);
          sizes.emplace(*base, object.plain_size);
        }
      }
      packs.add_stored(object);
    };
    while (!wanted.empty()) {
      progress_.check_interrupted();
      remote_.receive(wanted, take, progress_);
      wanted = lacking(to_, bases);
      bases.clear();
    }
    batch->commit();
  }

 private:
  // Before decoding: the size that it unfolds to was announced, or is bounded.
  void check_size(const StoredObject& object, const Sizes& sizes) {
    require_opened(object);
    if (object.key.kind == ObjectKind::kOperation) operations_.count(object.plain_size, object.stored.size(), kFrom);
    const auto size = sizes.find(object.key);
    if (size == sizes.end() || size->second == object.plain_size) return;
    fail(ErrorKind::kCorrupt, "{}: chunk {} has {} bytes, and {} by the list that names it", kFrom,
         object.key.id.brief(), object.plain_size, size->second);
  }

  Remote& remote_;
  Store& to_;
  Progress& progress_;
  OperationIntake operations_;
  std::uint64_t objects_ = 0;
  std::atomic<std::uint64_t> bytes_{0};
};

// Chunk lists that have come and are not stored yet.
class HeldLists {
 public:
  HeldLists(Remote& remote, Store& to) : remote_(remote), to_(to) {}
  std::uint64_t bytes() const { return bytes_; }

  // Receives the lists of as many of `files` as may be held, and removes those from `files`.
  void receive(std::vector<FileRef>& files) {
    const std::size_t count = std::min(kReceiveSlice, files.size());
    std::unordered_map<ObjectKey, FileRef, ObjectKeyHash> asked;
    std::vector<ObjectKey> keys;
    for (std::size_t i = 0; i < count; ++i) {
      const ObjectKey key{files[i].id, ObjectKind::kChunkList};
      if (asked.emplace(key, files[i]).second) keys.push_back(key);
    }
    std::mutex mutex;
    NoProgress quiet(to_.interruption());
    remote_.receive(
        keys,
        [&](StoredObject&& object) {
          const FileRef file = asked.at(object.key);
          if (object.plain_size > kMaxListSize)
            fail(ErrorKind::kCorrupt, "{}: larger than one may be", name_of_list(file.id));
          {
            std::lock_guard lock(mutex);
            if (!taken_.empty() && held_ + object.plain_size > kHeldLists) return;  // asked for again
            held_ += object.plain_size;
            bytes_ += object.stored.size();
            taken_.insert(file.id);
          }
          ChunkList list = open(object, file);
          std::lock_guard lock(mutex);
          opened_.push_back({std::move(object), std::move(list)});
        },
        quiet);
    std::erase_if(files, [&](const FileRef& file) { return taken_.contains(file.id); });
  }

  void bring_chunks(Receiver& receiver) {
    for (const Held& held : opened_) {
      if (held.list.level == 1) want(held.list.items, false, receiver);
    }
    fetch(receiver);
    for (const Held& held : opened_) {
      if (held.list.level == 0) want(held.list.items, true, receiver);
      if (held.list.level == 0) continue;
      const std::string what = name_of_list(held.object.key.id);
      for (const ChunkItem& item : held.list.items)
        want(decode_page(to_.read(ObjectKind::kChunk, item.id), item, what).items, true, receiver);
    }
    fetch(receiver);
  }

  // The batch verifies that the lists make their files.
  void store() {
    const std::unique_ptr<Batch> batch = to_.begin();
    for (const Held& held : opened_) batch->add_stored(held.object);
    batch->commit();
    for (const Held& held : opened_) StoreAccess::state(to_).set_verified(held.object.key.id);
  }

 private:
  struct Held {
    StoredObject object;
    ChunkList list;
  };
  static std::string name_of_list(const Digest& file) { return fmt::format("chunk list of {}", file.brief()); }

  ChunkList open(const StoredObject& object, const FileRef& file) const {
    require_opened(object);
    Bytes plain;
    StoreAccess::state(to_).codecs.lend()->decode(record_of(object), object.stored, plain, kFrom);
    ChunkList list = decode_chunk_list(plain, name_of_list(file.id));
    if (!file.size && list.size > kMaxUnannounced)
      fail(ErrorKind::kCorrupt, "{}: makes {}, and no version gives that size", name_of_list(file.id),
           format_bytes(list.size));
    if (!file.size || *file.size == list.size) return list;
    fail(ErrorKind::kCorrupt, "{}: makes {} bytes, and the file has {}", name_of_list(file.id), list.size, *file.size);
  }

  // An item of a list gives its chunk's size; an item that is a page does not.
  void want(const std::vector<ChunkItem>& items, bool sized, Receiver& receiver) {
    const StoreState& store = StoreAccess::state(to_);
    for (const ChunkItem& item : items) {
      const ObjectKey key{item.id, ObjectKind::kChunk};
      if (wanted_.contains(key) || store.has(store.key_of(key.kind, key.id))) continue;
      wanted_.emplace(key);
      if (sized) sizes_.emplace(key, item.size);
      if (wanted_.size() >= kReceiveSlice) fetch(receiver);
    }
  }

  void fetch(Receiver& receiver) {
    if (wanted_.empty()) return;
    receiver.receive({wanted_.begin(), wanted_.end()}, std::exchange(sizes_, {}));
    wanted_.clear();
  }

  Remote& remote_;
  Store& to_;
  std::unordered_set<Digest, DigestHash> taken_;
  std::vector<Held> opened_;
  KeySet wanted_;
  Sizes sizes_;  // what the lists say of them
  std::uint64_t held_ = 0, bytes_ = 0;
};

}  // namespace

std::vector<ObjectRef> missing_objects(Remote& remote, const std::vector<ObjectRef>& objects) {
  std::vector<ObjectRef> result;
  for (const ObjectKey& key : remote.missing(keys_of(objects))) result.emplace_back(key.kind, key.id);
  return result;
}

std::uint64_t send_objects(const Store& from, Remote& remote, const std::vector<ObjectRef>& objects,
                           Progress& progress) {
  const StoreState& store = StoreAccess::state(from);
  std::vector<Outgoing> outgoing;
  for (const ObjectKey& key : remote.missing(keys_of(objects))) outgoing.push_back(look_up(store, key));
  for (const ObjectKey& key : lacking_bases(store, remote, outgoing)) outgoing.push_back(look_up(store, key));
  if (outgoing.empty()) return 0;
  std::ranges::stable_sort(outgoing, {}, &Outgoing::rank);
  std::vector<ObjectKey> keys;
  std::uint64_t bytes = 0;
  for (const Outgoing& object : outgoing) keys.push_back(object.key), bytes += object.size;
  progress.begin("Sending", bytes, "B");
  remote.send(
      keys, [&](const ObjectKey& key) { return store.read_plain(key.kind, key.id); }, progress);
  progress.end();
  return bytes;
}

std::uint64_t receive_objects(Remote& remote, Store& to, const std::vector<ObjectRef>& objects, Progress& progress) {
  to.keep_found();
  const std::vector<ObjectKey> wanted = lacking(to, keys_of(objects));
  if (wanted.empty()) return 0;
  Receiver receiver(remote, to, progress);
  progress.begin("Receiving", 0, "B");
  for (std::size_t at = 0; at < wanted.size(); at += kReceiveSlice) {
    const auto begin = wanted.begin() + static_cast<std::ptrdiff_t>(at);
    const auto count = static_cast<std::ptrdiff_t>(std::min(kReceiveSlice, wanted.size() - at));
    receiver.receive({begin, begin + count}, {});
  }
  progress.end();
  return receiver.bytes();
}

std::uint64_t receive_operations(Remote& remote, Store& to, const std::vector<Digest>& ids, Progress& progress) {
  to.keep_found();
  if (ids.empty()) return 0;
  Receiver receiver(remote, to, progress);
  progress.begin("Receiving", 0, "B");
  for (std::size_t at = 0; at < ids.size(); at += kReceiveSlice) {
    std::vector<ObjectKey> keys;
    for (std::size_t i = at; i < std::min(at + kReceiveSlice, ids.size()); ++i)
      keys.push_back({ids[i], ObjectKind::kOperation});
    receiver.receive(lacking(to, keys), {});
  }
  progress.end();
  return receiver.bytes();
}

Received receive_files(Remote& remote, Store& to, const std::vector<FileRef>& files, Progress& progress) {
  to.keep_found();
  Receiver receiver(remote, to, progress);
  progress.begin("Receiving", 0, "B");
  for (std::vector<FileRef> left = files; !left.empty();) {
    progress.check_interrupted();
    HeldLists held(remote, to);
    held.receive(left);
    held.bring_chunks(receiver);
    held.store();
    receiver.add(held.bytes());
  }
  progress.end();
  return {receiver.objects() + files.size(), receiver.bytes()};
}

bool is_sealed(const Store& store, ObjectKind kind, const Digest& id) {
  const StoreState& state = StoreAccess::state(store);
  std::shared_ptr<const Index> picture;
  const auto location = state.find(state.key_of(kind, id), picture);
  return location && location->record.key_id != 0 && !state.encrypted;
}

std::uint64_t receive_behind_parts(Remote& remote, Store& to, const std::vector<ObjectRef>& objects,
                                   const std::function<void(const std::vector<Bytes>&)>& bring_parts,
                                   Progress& progress) {
  to.keep_found();
  const std::vector<ObjectKey> wanted = lacking(to, keys_of(objects));
  if (wanted.empty()) return 0;
  std::vector<StoredObject> arrived;
  std::vector<Bytes> plain;
  std::uint64_t bytes = 0;
  std::mutex mutex;
  progress.begin("Receiving", 0, "B");
  remote.receive(
      wanted,
      [&](StoredObject&& object) {
        Bytes content;
        Codec().decode(record_of(object), object.stored, content, "received object");
        std::lock_guard lock(mutex);
        bytes += object.stored.size();
        arrived.push_back(std::move(object));
        plain.push_back(std::move(content));
      },
      progress);
  progress.end();
  bring_parts(plain);
  const std::unique_ptr<Batch> batch = to.begin();
  for (const StoredObject& object : arrived) batch->add_stored(object);
  batch->commit();
  return bytes;
}

std::uint64_t stored_bytes(const Store& store, const std::vector<ObjectRef>& objects) {
  const StoreState& state = StoreAccess::state(store);
  std::uint64_t bytes = 0;
  for (const auto& [kind, id] : objects) bytes += look_up(state, state.key_of(kind, id)).size;
  return bytes;
}

std::vector<ObjectKey> lacking(const Store& store, const std::vector<ObjectKey>& keys) {
  const StoreState& state = StoreAccess::state(store);
  std::vector<ObjectKey> result;
  KeySet seen;
  for (const ObjectKey& key : keys) {
    if (!state.has(state.key_of(key.kind, key.id)) && seen.insert(key).second) result.push_back(key);
  }
  return result;
}

void add_stored_objects(Store& to, const std::vector<ObjectKey>& keys, const ReadStored& read, Progress& progress) {
  Pool& pool = StoreAccess::state(to).pool;
  constexpr std::size_t kStep = 1024;
  std::unique_ptr<Batch> batch;
  std::atomic<std::uint64_t> gathered{0};
  for (std::size_t at = 0; at < keys.size(); at += kStep) {
    if (!batch) batch = to.begin();
    Batch& packs = *batch;
    pool.run(static_cast<std::int64_t>(std::min(kStep, keys.size() - at)), [&](std::int64_t i) {
      progress.check_interrupted();
      StoredObject object = read(keys[at + static_cast<std::size_t>(i)]);
      std::size_t size = object.stored.size();
      packs.add_stored(object);
      gathered += size;
      progress.advance(size);
    });
    if (gathered < kPublishSlice && at + kStep < keys.size()) continue;
    batch->commit();
    batch.reset();
    gathered = 0;
  }
}

}  // namespace mlx::store
