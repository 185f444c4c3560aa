#include "store/pack/usage.h"

#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "store/pack/cipher.h"
#include "store/pack/store_state.h"

namespace mlx::store {

namespace {

using KeySet = std::unordered_set<ObjectKey, ObjectKeyHash>;

// An encrypted operation shows its id only when it is read.
Digest plain_id_of_operation(const StoreState& store, const ObjectKey& key) {
  StoredObject sealed = store.read_stored(key);
  std::shared_ptr<const KeyRing> ring = store.ring();
  const DomainKey* with = ring->find(sealed.key_id);
  if (!with)
    fail(ErrorKind::kRefused, "{}: operation {} is under a key that is not here", store.folder, key.id.brief());
  Bytes payload = open_sealed(*with, sealed, store.folder), plain;
  store.codecs.lend()->decode_unidentified(record_of(sealed), payload, plain, store.folder);
  return Digest::of(plain);
}

// Visits every object that a manifest needs, with the bases of deltas, each once.
class Counter {
 public:
  explicit Counter(const Store& store) : store_(store), state_(StoreAccess::state(store)), index_(state_.index()) {}

  void manifest(const Digest& id, const std::function<void(const ObjectKey&, const std::optional<Location>&)>& tell) {
    tell_ = &tell;
    if (!see(ObjectKind::kManifest, id)) return;
    for (const ShardRef& shard : store_.shards(id)) {
      if (!see(ObjectKind::kShard, shard.id)) continue;
      for (const Entry& entry : decode_shard(store_.read(ObjectKind::kShard, shard.id))) blob(entry.content);
    }
  }

 private:
  // True if it is here and was not visited before.
  bool see(ObjectKind kind, const Digest& id) {
    ObjectKey key = state_.key_of(kind, id);
    if (!told_.insert(key).second) return false;
    auto location = index_->find(key);
    (*tell_)(key, location);
    if (location && location->record.encoding == Encoding::kDelta) base(key);
    return location.has_value();
  }

  void base(const ObjectKey& delta) {
    auto key = base_of(state_.read_stored(delta));
    if (key && told_.insert(*key).second) (*tell_)(*key, index_->find(*key));
  }

  void blob(const Digest& content) {
    if (!blobs_.insert(content).second) return;
    if (!store_.has_blob(content)) {
      see(ObjectKind::kChunk, content);
      return;
    }
    try {
      store_.visit_reachable_blob(content, [&](ObjectKind kind, const Digest& id) { see(kind, id); });
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kNotFound) throw;  // a long list of which a page is not here
    }
  }

  const Store& store_;
  const StoreState& state_;
  std::shared_ptr<const Index> index_;
  const std::function<void(const ObjectKey&, const std::optional<Location>&)>* tell_ = nullptr;
  KeySet told_;
  std::unordered_set<Digest, DigestHash> blobs_;
};

}  // namespace

Usage usage(const Store& store, const Digest& manifest, const std::vector<Digest>& others) {
  KeySet elsewhere;
  Counter other_counter(store);
  for (const Digest& other : others) {
    if (other == manifest || !store.has(ObjectKind::kManifest, other)) continue;
    other_counter.manifest(other, [&](const ObjectKey& key, const std::optional<Location>&) { elsewhere.insert(key); });
  }
  Usage result;
  Counter(store).manifest(manifest, [&](const ObjectKey& key, const std::optional<Location>& location) {
    ++result.objects;
    if (!location) {
      ++result.missing;
      return;
    }
    result.stored += location->record.stored_size;
    if (elsewhere.contains(key)) result.shared += location->record.stored_size;
    if (location->record.encoding == Encoding::kDelta) ++result.deltas;
  });
  std::unordered_set<Digest, DigestHash> seen;
  for (const Entry& entry : store.entries(manifest)) {
    result.logical += entry.size;
    if (seen.insert(entry.content).second) result.unique += entry.size;
  }
  return result;
}

void visit_operations(const Store& store, const std::function<void(const Digest&)>& visit) {
  const StoreState& state = StoreAccess::state(store);
  state.index()->visit([&](const Location& location) {
    const ObjectKey& key = location.record.key;
    if (key.kind == ObjectKind::kOperation) visit(state.encrypted ? plain_id_of_operation(state, key) : key.id);
  });
}

}  // namespace mlx::store
