// A Store's state, for the files of this layer that implement it (batches, readers, fsck, remotes). Not for layers
// above.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>

#include "base/path.h"
#include "store/crypto/keys.h"
#include "store/format/codec.h"
#include "store/pack/index.h"
#include "store/pack/pins.h"
#include "store/pack/store.h"

namespace mlx::store {

struct StoreState {
  StoreState(std::string root, Disk& the_disk, Pool& the_pool, StoreOptions the_options)
      : folder(std::move(root)),
        packs_folder(join_path(folder, "packs")),
        disk(the_disk),
        pool(the_pool),
        options(std::move(the_options)),
        pins(packs_folder, the_disk) {}

  std::string folder;
  std::string packs_folder;
  Disk& disk;
  Pool& pool;
  StoreOptions options;
  mutable CodecPool codecs;
  bool encrypted = false;
  std::string domain = kMainDomain;  // of what is added
  mutable Pins pins;
  std::atomic<bool> keeps_found{false};  // from the first write on: has() pins what it finds

  // Readers keep the index that they got while a new one is swapped in.
  std::shared_ptr<const Index> index() const {
    std::lock_guard lock(mutex_);
    return index_;
  }
  void reload() const;
  void reload_anew() const;  // after a repair: a pack of the same name may have other bytes
  void refuse(std::unordered_map<Digest, Error, DigestHash> manifests);
  // The key of an object in packs: the one place that turns ids into storage ids.
  ObjectKey key_of(ObjectKind kind, const Digest& id) const {
    return encrypted ? key_of_encrypted(kind, id) : ObjectKey{id, kind};
  }
  // Unlocks the keys when first called; nullptr if the store is plain.
  std::shared_ptr<const KeyRing> ring() const;
  std::optional<Location> find(const ObjectKey& key, std::shared_ptr<const Index>& index) const;
  bool has(const ObjectKey& key) const;  // also pins it, after keep_found()
  bool find_and_keep(const ObjectKey& key) const;
  // Verified plain bytes. kNotFound / kCorrupt, or what was said with refuse().
  void read(ObjectKind kind, const Digest& id, Bytes& plain) const;
  void read(const ObjectKey& key, Bytes& plain) const;
  // A chunk of a file that is hashed as a whole: in a plain store its own id is not verified.
  void read_part(const Digest& chunk, Bytes& plain) const;
  // As it is stored, checksum verified; for copying to another store.
  StoredObject read_stored(const ObjectKey& key) const;
  // As a plain store would keep it, whether this one is encrypted or not; for sending it elsewhere.
  StoredObject read_plain(ObjectKind kind, const Digest& id) const;
  // For Codec::decode: reads chunks that are stored whole.
  ReadBase read_base() const;
  // Calls the function of on_missing(); true if the object may be here now.
  bool fetch_missing(ObjectKind kind, const Digest& id) const;
  Store::Fetch fetch;
  mutable std::mutex fetch_mutex;

  // Files whose chunk lists this process has verified.
  bool is_verified(const Digest& file) const;
  void set_verified(const Digest& file) const;

  // Throws kNotFound, or kCorrupt if a damaged pack may have held the object.
  [[noreturn]] void missing(const ObjectKey& key, const Index& index) const;

 private:
  void locate(const ObjectKey& key, const std::function<void(const Index&, const Location&)>& use) const;
  void refresh(const Index& outdated) const;
  ObjectKey key_of_encrypted(ObjectKind kind, const Digest& id) const;
  // `id` is the plain id, or nullptr if it is unknown: then the content is not compared with it.
  void decode(const ObjectKey& key, const Digest* id, Bytes& plain, const ReadBase& base) const;
  void check_refused(const Digest& manifest) const;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Index> index_;
  std::unordered_map<Digest, Error, DigestHash> refused_;
  mutable std::unordered_set<Digest, DigestHash> verified_;
};

struct StoreAccess {
  static StoreState& state(Store& store) { return *store.state_; }
  static const StoreState& state(const Store& store) { return *store.state_; }
};

}  // namespace mlx::store
