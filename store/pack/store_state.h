// What a Store keeps, for the files of this layer that implement it (batches, readers, fsck, remotes). Not for layers
// above.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>

#include "base/path.h"
#include "store/crypto/keys.h"
#include "store/pack/codec.h"
#include "store/pack/index.h"
#include "store/pack/pins.h"
#include "store/pack/store.h"

namespace mlx::store {

struct Store::State {
  State(std::string root, Disk& the_disk, Pool& the_pool, StoreOptions the_options)
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

  // The picture that readers hold on to while a new one is swapped in.
  std::shared_ptr<const Index> index() const {
    std::lock_guard lock(mutex_);
    return index_;
  }
  void reload() const;
  void reload_anew() const;  // where a pack of the same name may have other bytes: after a repair
  void refuse(std::unordered_map<Digest, Error, DigestHash> manifests);
  // What the packs know an object by: the one place where ids become storage ids.
  ObjectKey key_of(ObjectKind kind, const Digest& id) const {
    return encrypted ? key_of_encrypted(kind, id) : ObjectKey{id, kind};
  }
  // Unlocks the keys where that was not done yet; nullptr where the store is plain.
  std::shared_ptr<const KeyRing> ring() const;
  std::optional<Location> find(const ObjectKey& key, std::shared_ptr<const Index>& index) const;
  bool has(const ObjectKey& key) const;  // and pinned, where what is found is kept
  bool find_and_keep(const ObjectKey& key) const;
  // Verified plain bytes. kNotFound / kCorrupt, or what was said with refuse().
  void read(ObjectKind kind, const Digest& id, Bytes& plain) const;
  void read(const ObjectKey& key, Bytes& plain) const;
  // A chunk whose bytes are hashed as a part of a file: not compared with its own id where nothing is encrypted.
  void read_part(const Digest& chunk, Bytes& plain) const;
  // As it is stored, checksum verified; for copying to another store.
  StoredObject read_stored(const ObjectKey& key) const;
  // As a plain store would keep it, whether this one is encrypted or not; for sending it elsewhere.
  StoredObject read_plain(ObjectKind kind, const Digest& id) const;
  // For Codec::decode: chunks that are stored whole.
  ReadBase read_base() const;
  // Asks the one who set on_missing(); true where it is worth looking again.
  bool fetch_missing(ObjectKind kind, const Digest& id) const;
  Store::Fetch fetch;
  mutable std::mutex fetch_mutex;

  // Files whose chunk lists were seen to make them, by this process.
  bool is_verified(const Digest& file) const;
  void set_verified(const Digest& file) const;

  // kNotFound for what is not here, or kCorrupt where a damaged pack may have held it.
  [[noreturn]] void missing(const ObjectKey& key, const Index& index) const;

 private:
  void locate(const ObjectKey& key, const std::function<void(const Index&, const Location&)>& use) const;
  void refresh(const Index& outdated) const;
  ObjectKey key_of_encrypted(ObjectKind kind, const Digest& id) const;
  // `id` is the plain id where it is known: then the content is checked against it.
  void decode(const ObjectKey& key, const Digest* id, Bytes& plain, const ReadBase& base) const;
  void check_refused(const Digest& manifest) const;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Index> index_;
  std::unordered_map<Digest, Error, DigestHash> refused_;
  mutable std::unordered_set<Digest, DigestHash> verified_;
};

struct StoreAccess {
  static Store::State& state(Store& store) { return *store.state_; }
  static const Store::State& state(const Store& store) { return *store.state_; }
};

std::string_view name_of(ObjectKind kind);  // "chunk", "manifest" …

}  // namespace mlx::store
