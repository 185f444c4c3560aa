// Objects are decoded and encoded again, never as deltas: a delta's base may be among what is erased.
#include "store/maintenance/reencrypt.h"

#include <algorithm>
#include <set>

#include "store/pack/batch.h"
#include "store/pack/store_state.h"

namespace mlx::store {

namespace {

bool stands_without(const StoreState& store, const KeyRing& ring, ObjectKind kind, const Digest& id,
                    const std::vector<std::uint32_t>& keys) {
  const auto stands = [&](const ObjectKey& key) { return store.index()->find(key).has_value(); };
  if (stands({id, kind})) return true;
  return std::ranges::any_of(ring.keys(), [&](const DomainKey& key) {
    return std::ranges::find(keys, key.id) == keys.end() && stands({storage_id(key, id), kind});
  });
}

// A delta is readable without the keys only if its base is.
void add_base(const StoreState& store, const KeyRing& ring, ObjectKind kind, const Digest& id,
              const std::vector<std::uint32_t>& keys, std::set<std::pair<ObjectKind, Digest>>& found) {
  if (kind != ObjectKind::kChunk || found.contains({kind, id})) return;
  const StoredObject object = store.read_plain(kind, id);
  const std::optional<ObjectKey> base = base_of(object);
  if (base && !stands_without(store, ring, base->kind, base->id, keys)) found.emplace(kind, id);
}

}  // namespace

ObjectsOfVersions readable_only_with(const Store& store, const std::vector<Digest>& manifests,
                                     const std::vector<std::uint32_t>& keys) {
  const StoreState& state = StoreAccess::state(store);
  const std::shared_ptr<const KeyRing> ring = state.ring();
  if (!ring) return {};
  std::set<std::pair<ObjectKind, Digest>> found;
  for (const Digest& manifest : manifests) {
    if (!store.has(ObjectKind::kManifest, manifest)) continue;
    store.visit_reachable_manifest(manifest, [&](ObjectKind kind, const Digest& id) {
      if (!store.has(kind, id)) return;  // fetched in part
      if (!stands_without(state, *ring, kind, id, keys)) found.emplace(kind, id);
      add_base(state, *ring, kind, id, keys, found);
    });
  }
  return {found.begin(), found.end()};
}

void reencrypt(Store& store, const ObjectsOfVersions& objects, const std::string& domain) {
  store.use_domain(domain);
  const std::unique_ptr<Batch> batch = store.begin();
  Batch& packs = *batch;
  for (const auto& [kind, id] : objects) packs.put_under_current_key(kind, id, store.read(kind, id));
  batch->commit();
}

}  // namespace mlx::store
