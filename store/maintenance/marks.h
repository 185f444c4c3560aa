// Marks the reachable objects of a store: from references, through everything that objects name. Used by gc. This is
// the one place that knows what each kind of object names.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "base/progress.h"
#include "store/pack/store_state.h"

namespace mlx::store {

// Marks over one picture of the packs. An object outside the picture (added since) is followed too if it can be read,
// and has no mark of its own.
class Marks {
 public:
  Marks(const StoreState& store, const std::shared_ptr<const Index>& picture);
  // No marks yet, over the same picture, even if some of its packs were removed since.
  Marks blank() const { return Marks(store_, picture_, packs_); }

  void add_manifest(const Digest& id) { add(store_.key_of(ObjectKind::kManifest, id)); }
  void add_blob(const Digest& id);
  void add_operation(const Digest& id) { add(store_.key_of(ObjectKind::kOperation, id)); }
  void add_key(const ObjectKey& key) { add(key); }
  // Every object of a pack that stays, since none may lack what it names. The pack may be newer than the picture.
  void add_pack(std::size_t pack);
  void add_pack_of(const Index& later, std::size_t pack);
  // Marks the added objects and all that they name, by all cores. kCorrupt if an object that names others cannot be
  // read: then what it needs is unknown.
  void follow(Progress& progress);

  const PackIndex& pack(std::size_t pack) const { return *packs_[pack]; }
  bool marked(std::size_t pack, std::uint64_t record) const {
    return marks_[pack][record].load(std::memory_order_relaxed) != 0;
  }
  // True for an object that needs others: it names them, or is a delta. If it is dead, it must not outlive them.
  static bool names_others(const PackRecord& record);

 private:
  using Packs = std::vector<std::shared_ptr<const PackIndex>>;
  Marks(const StoreState& store, std::shared_ptr<const Index> picture, Packs packs);
  static Packs open(const Index& picture);
  void add(const ObjectKey& key);
  void add_record(std::size_t pack, std::uint64_t record, const PackRecord& found);
  void add_base(const Index& index, const Location& delta);
  void add_named(const ObjectKey& key);
  void add_blob_parts(ByteView list);
  void wait_for(const ObjectKey& key);

  const StoreState& store_;
  std::shared_ptr<const Index> picture_;
  Packs packs_;
  std::vector<std::unique_ptr<std::atomic<std::uint8_t>[]>> marks_;
  std::mutex mutex_;
  std::vector<ObjectKey> waiting_;  // marked; what they name is not yet
  std::unordered_set<ObjectKey, ObjectKeyHash> elsewhere_;
};

}  // namespace mlx::store
