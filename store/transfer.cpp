// Objects are copied in slices so that no more than a slice's worth is in memory, by all cores.
#include "store/transfer.h"

#include <unordered_set>

#include "base/error.h"
#include "store/batch.h"

namespace mlx::store {

std::vector<ObjectRef> lacking(const Store& store, const std::vector<ObjectRef>& objects) {
  std::vector<ObjectRef> result;
  std::unordered_set<ObjectKey, ObjectKeyHash> seen;
  for (const ObjectRef& object : objects) {
    if (store.has(object.first, object.second)) continue;
    if (seen.insert({storage_id(object.second), object.first}).second) result.push_back(object);
  }
  return result;
}

void transfer(const Store& from, Store& to, const std::vector<ObjectRef>& objects, Progress& progress) {
  std::vector<ObjectRef> wanted = lacking(to, objects);
  if (wanted.empty()) return;
  const Store::State& source = StoreAccess::state(from);
  std::unique_ptr<Batch> batch = to.begin();
  auto& packs = static_cast<PackBatch&>(*batch);
  progress.begin("Copying objects", wanted.size(), "objects");
  source.pool.run(static_cast<std::int64_t>(wanted.size()), [&](std::int64_t i) {
    check_interrupted();
    const auto& [kind, id] = wanted[static_cast<std::size_t>(i)];
    packs.add_stored(source.read_stored({storage_id(id), kind}));
    progress.advance(1);
  });
  batch->commit();
  progress.end();
}

}  // namespace mlx::store
