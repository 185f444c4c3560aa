// What a Store keeps, for the files of this layer that implement it (batches, readers, fsck, remotes). Not for layers
// above.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "store/codec.h"
#include "store/index.h"
#include "store/store.h"

namespace mlx::store {

struct Store::State {
  State(std::string root, Disk& the_disk, Pool& the_pool, StoreOptions the_options)
      : folder(std::move(root)), disk(the_disk), pool(the_pool), options(the_options) {}

  std::string folder;
  std::string packs_folder;
  Disk& disk;
  Pool& pool;
  StoreOptions options;
  mutable CodecPool codecs;

  // The picture that readers hold on to while a new one is swapped in.
  std::shared_ptr<const Index> index() const {
    std::lock_guard lock(mutex_);
    return index_;
  }
  void reload();
  std::optional<Location> find(const ObjectKey& key, std::shared_ptr<const Index>& index) const;
  // Verified plain bytes. kNotFound / kCorrupt.
  void read(const ObjectKey& key, Bytes& plain) const;
  // As it is stored, checksum verified; for copying to another store.
  StoredObject read_stored(const ObjectKey& key) const;

 private:
  [[noreturn]] void missing(const ObjectKey& key, const Index& index) const;
  mutable std::mutex mutex_;
  std::shared_ptr<const Index> index_;
};

struct StoreAccess {
  static Store::State& state(Store& store) { return *store.state_; }
  static const Store::State& state(const Store& store) { return *store.state_; }
};

std::string_view name_of(ObjectKind kind);  // "chunk", "manifest" …

}  // namespace mlx::store
