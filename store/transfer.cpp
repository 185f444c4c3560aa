// Chunks go before what names them, and whole chunks before deltas, so that whatever was published when a transfer was
// cut is whole in itself and spares the next one its sending.
#include "store/transfer.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_set>

#include "base/error.h"
#include "store/batch.h"

namespace mlx::store {

namespace {

using KeySet = std::unordered_set<ObjectKey, ObjectKeyHash>;

// Stored bytes that one batch may gather before it is published.
constexpr std::uint64_t kSlice = std::uint64_t{256} << 20;

std::vector<ObjectKey> keys_of(const std::vector<ObjectRef>& objects) {
  std::vector<ObjectKey> keys;
  keys.reserve(objects.size());
  for (const auto& [kind, id] : objects) keys.push_back({id, kind});
  return keys;
}

// What must stand before what: chunks, deltas on them, lists, shards, manifests, operations.
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

Outgoing look_up(const Store::State& store, const ObjectKey& key) {
  std::shared_ptr<const Index> picture;
  auto location = store.find(store.key_of(key.kind, key.id), picture);
  if (!location) store.missing(key, *picture);
  return {key, rank_of(location->record), location->record.stored_size};
}

// The bases that deltas among `outgoing` need and the remote lacks.
std::vector<ObjectKey> lacking_bases(const Store::State& store, Remote& remote, const std::vector<Outgoing>& outgoing) {
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

}  // namespace

std::vector<ObjectRef> missing_objects(Remote& remote, const std::vector<ObjectRef>& objects) {
  std::vector<ObjectRef> result;
  for (const ObjectKey& key : remote.missing(keys_of(objects))) result.emplace_back(key.kind, key.id);
  return result;
}

std::uint64_t send_objects(const Store& from, Remote& remote, const std::vector<ObjectRef>& objects,
                           Progress& progress) {
  const Store::State& store = StoreAccess::state(from);
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
  std::vector<ObjectKey> wanted = lacking(to, keys_of(objects));
  if (wanted.empty()) return 0;
  std::unique_ptr<Batch> batch = to.begin();
  auto& packs = static_cast<PackBatch&>(*batch);
  KeySet asked(wanted.begin(), wanted.end());
  std::vector<ObjectKey> bases;
  std::mutex mutex;
  std::atomic<std::uint64_t> bytes{0};
  progress.begin("Receiving", 0, "B");
  while (!wanted.empty()) {
    remote.receive(
        wanted,
        [&](StoredObject&& object) {
          bytes += object.stored.size();
          if (auto base = base_of(object)) {
            std::lock_guard lock(mutex);
            if (asked.insert(*base).second) bases.push_back(*base);
          }
          packs.add_stored(object);
        },
        progress);
    wanted = lacking(to, bases);
    bases.clear();
  }
  batch->commit();
  progress.end();
  return bytes;
}

std::uint64_t stored_bytes(const Store& store, const std::vector<ObjectRef>& objects) {
  const Store::State& state = StoreAccess::state(store);
  std::uint64_t bytes = 0;
  for (const auto& [kind, id] : objects) bytes += look_up(state, state.key_of(kind, id)).size;
  return bytes;
}

std::vector<ObjectKey> lacking(const Store& store, const std::vector<ObjectKey>& keys) {
  const Store::State& state = StoreAccess::state(store);
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
    auto& packs = static_cast<PackBatch&>(*batch);
    pool.run(static_cast<std::int64_t>(std::min(kStep, keys.size() - at)), [&](std::int64_t i) {
      check_interrupted();
      StoredObject object = read(keys[at + static_cast<std::size_t>(i)]);
      std::size_t size = object.stored.size();
      packs.add_stored(object);
      gathered += size;
      progress.advance(size);
    });
    if (gathered < kSlice && at + kStep < keys.size()) continue;
    batch->commit();
    batch.reset();
    gathered = 0;
  }
}

}  // namespace mlx::store
