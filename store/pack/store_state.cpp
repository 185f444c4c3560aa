// Looking objects up and decoding them. A gc in another process may remove a pack at any time, so an object that is not
// found is looked up once more in a fresh index.
#include "store/pack/store_state.h"

#include "base/error.h"
#include "store/pack/cipher.h"

namespace mlx::store {

namespace {

constexpr int kLookups = 20;  // of one object whose pack vanishes each time

}  // namespace

void StoreState::reload() const {
  std::shared_ptr<const Index> previous = index();
  std::shared_ptr<const Index> fresh = Index::load(packs_folder, previous.get());
  std::lock_guard lock(mutex_);
  index_ = std::move(fresh);
}

void StoreState::reload_anew() const {
  std::shared_ptr<const Index> fresh = Index::load(packs_folder, nullptr);
  std::lock_guard lock(mutex_);
  index_ = std::move(fresh);
}

// Unless another thread has reloaded it since.
void StoreState::refresh(const Index& outdated) const {
  if (index().get() == &outdated) reload();
}

std::optional<Location> StoreState::find(const ObjectKey& key, std::shared_ptr<const Index>& picture) const {
  picture = index();
  return picture->find(key);
}

bool StoreState::find_and_keep(const ObjectKey& key) const {
  for (;;) {
    std::shared_ptr<const Index> picture;
    auto location = find(key, picture);
    if (!location) return false;
    if (pins.pin(picture->pack_id(location->pack))) return true;
    refresh(*picture);  // a gc has removed the pack; the object may stand in another now
  }
}

bool StoreState::has(const ObjectKey& key) const {
  return keeps_found ? find_and_keep(key) : index()->find(key).has_value();
}

void StoreState::missing(const ObjectKey& key, const Index& picture) const {
  if (!picture.broken().empty()) {
    throw Error(ErrorKind::kCorrupt,
                fmt::format("{} {} is not in the store, and a pack is damaged: {}", name_of(key.kind), key.id.brief(),
                            picture.broken().front()),
                "`mlx fsck` lists what is lost; `mlx pull` fetches it from a remote that has it");
  }
  throw Error(ErrorKind::kNotFound,
              fmt::format("{}: {} {} is not in the store", folder, name_of(key.kind), key.id.brief()),
              "`mlx pull` fetches what the pointers name, `mlx fetch --all` everything that a remote has");
}

// An object that is not in the index, or is in a removed pack, is looked up once more in a fresh index: a gc may have
// moved it.
void StoreState::locate(const ObjectKey& key, const std::function<void(const Index&, const Location&)>& use) const {
  for (int attempt = 1;; ++attempt) {
    std::shared_ptr<const Index> picture;
    auto location = find(key, picture);
    if (location) {
      try {
        use(*picture, *location);
        return;
      } catch (const Error& error) {
        if (error.kind != ErrorKind::kNotFound || attempt == kLookups) throw;
      }
    } else if (attempt > 1) {
      missing(key, *picture);
    }
    refresh(*picture);
  }
}

void StoreState::refuse(std::unordered_map<Digest, Error, DigestHash> manifests) {
  std::lock_guard lock(mutex_);
  refused_ = std::move(manifests);
}

void StoreState::check_refused(const Digest& manifest) const {
  std::lock_guard lock(mutex_);
  const auto at = refused_.find(manifest);
  if (at != refused_.end()) throw Error(at->second);
}

std::shared_ptr<const KeyRing> StoreState::ring() const {
  if (!encrypted) return nullptr;
  if (!options.keys) {
    throw Error(ErrorKind::kRefused, fmt::format("{}: encrypted, and no key is unlocked", folder),
                "`mlx key list` shows who can unlock it");
  }
  return options.keys->ring();
}

// The key under which the object is stored; if there is none, its plain id, under which nothing is stored.
ObjectKey StoreState::key_of_encrypted(ObjectKind kind, const Digest& id) const {
  std::shared_ptr<const Index> picture = index();
  std::shared_ptr<const KeyRing> keys = ring();
  for (const DomainKey& key : keys->keys()) {
    ObjectKey candidate{storage_id(key, id), kind};
    if (picture->find(candidate)) return candidate;
  }
  return {id, kind};
}

void StoreState::decode(const ObjectKey& key, const Digest* id, Bytes& plain, const ReadBase& base) const {
  locate(key, [&](const Index& picture, const Location& location) {
    std::string where = picture.pack_path(location.pack);
    const PackRecord& record = location.record;
    if (record.key_id == 0) {
      Bytes stored;
      picture.read_stored(location, stored);
      codecs.lend()->decode(record, stored, plain, where, base);
      return;
    }
    std::shared_ptr<const KeyRing> keys = ring();
    if (!keys) fail(ErrorKind::kCorrupt, "{}: object {} is encrypted, and this store is not", where, key.id.brief());
    if (id) {
      StoredObject opened = open_object(*keys, *id, picture.read_object(location), where);
      codecs.lend()->decode(record_of(opened), opened.stored, plain, where, base);
      return;
    }
    const DomainKey* opener = keys->find(record.key_id);
    if (!opener) fail(ErrorKind::kRefused, "{}: there is no key for object {}", where, key.id.brief());
    codecs.lend()->decode_unidentified(record, open_sealed(*opener, picture.read_object(location), where), plain, where,
                                       base);
  });
}

void StoreState::read(const ObjectKey& key, Bytes& plain) const {
  decode(key, nullptr, plain, read_base());
}

void StoreState::read_part(const Digest& chunk, Bytes& plain) const {
  const ObjectKey key = key_of(ObjectKind::kChunk, chunk);
  if (encrypted) {
    decode(key, &chunk, plain, read_base());
    return;
  }
  locate(key, [&](const Index& picture, const Location& location) {
    Bytes stored;
    picture.read_stored(location, stored);
    codecs.lend()->decode_unidentified(location.record, stored, plain, picture.pack_path(location.pack), read_base());
  });
}

bool StoreState::is_verified(const Digest& file) const {
  std::lock_guard lock(mutex_);
  return verified_.contains(file);
}

void StoreState::set_verified(const Digest& file) const {
  std::lock_guard lock(mutex_);
  verified_.insert(file);
}

void StoreState::read(ObjectKind kind, const Digest& id, Bytes& plain) const {
  if (kind == ObjectKind::kManifest) check_refused(id);
  ObjectKey key = key_of(kind, id);
  if (fetch && !index()->find(key) && fetch_missing(kind, id)) key = key_of(kind, id);
  decode(key, &id, plain, read_base());
}

ReadBase StoreState::read_base() const {
  return [this](const Digest& id) {
    Bytes plain;
    try {
      decode(key_of(ObjectKind::kChunk, id), &id, plain, {});
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kNotFound) throw;
      fail(ErrorKind::kCorrupt, "{}: chunk {}, the base of a delta, is missing", folder, id.brief());
    }
    return plain;
  };
}

StoredObject StoreState::read_plain(ObjectKind kind, const Digest& id) const {
  StoredObject object = read_stored(key_of(kind, id));
  if (object.key_id == 0) return object;
  std::shared_ptr<const KeyRing> keys = ring();
  if (!keys) fail(ErrorKind::kCorrupt, "{}: object {} is encrypted, and this store is not", folder, id.brief());
  return open_object(*keys, id, object, folder);
}

StoredObject StoreState::read_stored(const ObjectKey& key) const {
  StoredObject object;
  locate(key, [&](const Index& picture, const Location& location) { object = picture.read_object(location); });
  return object;
}

bool StoreState::fetch_missing(ObjectKind kind, const Digest& id) const {
  if (!fetch) return false;
  std::lock_guard lock(fetch_mutex);
  return index()->find(key_of(kind, id)) || fetch({{kind, id}});  // another thread may have brought it
}

}  // namespace mlx::store
