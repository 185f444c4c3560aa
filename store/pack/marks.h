// Which objects of a store are reachable: set from references, followed through everything that objects name. Used by
// gc; what an object names is written down here and nowhere else.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "base/progress.h"
#include "store/pack/store_state.h"

namespace mlx::store {

// Marks over one picture of the packs. What is not in the picture (never fetched, or added since) is followed too,
// where it can be read, and has no mark of its own.
class Marks {
 public:
  Marks(const Store::State& store, const std::shared_ptr<const Index>& picture);
  // None yet, over the same picture, also where some of its packs are gone by now.
  Marks blank() const { return Marks(store_, picture_, packs_); }

  void add_manifest(const Digest& id) { add(store_.key_of(ObjectKind::kManifest, id)); }
  void add_blob(const Digest& id);
  void add_operation(const Digest& id) { add(store_.key_of(ObjectKind::kOperation, id)); }
  void add_key(const ObjectKey& key) { add(key); }
  // Every object of a pack, since what stays must not lack what it names: a pack of the picture, or of a later one.
  void add_pack(std::size_t pack);
  void add_pack_of(const Index& later, std::size_t pack);
  // Marks what was added, and all that it names, by all cores. kCorrupt where an object that names others cannot be
  // read: what it needs is not known then.
  void follow(Progress& progress);

  const PackIndex& pack(std::size_t pack) const { return *packs_[pack]; }
  bool marked(std::size_t pack, std::uint64_t record) const {
    return marks_[pack][record].load(std::memory_order_relaxed) != 0;
  }
  // True for objects that name others, or cannot be read without: one of these that is dead must not outlive those.
  static bool names_others(const PackRecord& record);

 private:
  using Packs = std::vector<std::shared_ptr<const PackIndex>>;
  Marks(const Store::State& store, std::shared_ptr<const Index> picture, Packs packs);
  static Packs open(const Index& picture);
  void add(const ObjectKey& key);
  void add_record(std::size_t pack, std::uint64_t record, const PackRecord& found);
  void add_base(const Index& index, const Location& delta);
  void add_named(const ObjectKey& key);
  void add_blob_parts(ByteView list);
  void wait_for(const ObjectKey& key);

  const Store::State& store_;
  std::shared_ptr<const Index> picture_;
  Packs packs_;
  std::vector<std::unique_ptr<std::atomic<std::uint8_t>[]>> marks_;
  std::mutex mutex_;
  std::vector<ObjectKey> waiting_;  // marked, and what they name is not yet
  std::unordered_set<ObjectKey, ObjectKeyHash> elsewhere_;
};

}  // namespace mlx::store
