// Opening a store and looking objects up; the tree of manifests is in manifest_tree.cpp, files' content in
// blob_reader.cpp, writing in batch.cpp, verification in fsck.cpp.
#include <algorithm>

#include "base/error.h"
#include "base/path.h"
#include "store/pack/batch.h"
#include "store/pack/cipher.h"
#include "store/pack/layout.h"
#include "store/pack/store_state.h"
#include "store/pack/usage.h"
#include "store/temporary.h"

namespace mlx::store {

namespace {

constexpr int kAttempts = 20;  // packs that vanish while they are looked up

}  // namespace

std::string_view name_of(ObjectKind kind) {
  switch (kind) {
    case ObjectKind::kChunk:
      return "chunk";
    case ObjectKind::kChunkList:
      return "chunk list";
    case ObjectKind::kManifest:
      return "manifest";
    case ObjectKind::kShard:
      return "manifest shard";
    case ObjectKind::kOperation:
      return "operation";
  }
  return "object";
}

void Store::create(const std::string& folder, Disk& disk, bool encrypted) {
  settle_layout(folder, disk, encrypted);
}

Store::Store(const std::string& folder, Disk& disk, Pool& pool, StoreOptions options)
    : state_(std::make_unique<State>(folder, disk, pool, std::move(options))) {
  state_->encrypted = read_layout(folder);
  state_->reload();
}

Store::~Store() = default;

void Store::State::reload() const {
  std::shared_ptr<const Index> previous = index();
  std::shared_ptr<const Index> fresh = Index::load(packs_folder, previous.get());
  std::lock_guard lock(mutex_);
  index_ = std::move(fresh);
}

void Store::State::reload_anew() const {
  std::shared_ptr<const Index> fresh = Index::load(packs_folder, nullptr);
  std::lock_guard lock(mutex_);
  index_ = std::move(fresh);
}

// Unless another thread has done so since.
void Store::State::refresh(const Index& outdated) const {
  if (index().get() == &outdated) reload();
}

std::optional<Location> Store::State::find(const ObjectKey& key, std::shared_ptr<const Index>& picture) const {
  picture = index();
  return picture->find(key);
}

bool Store::State::find_and_keep(const ObjectKey& key) const {
  for (;;) {
    std::shared_ptr<const Index> picture;
    auto location = find(key, picture);
    if (!location) return false;
    if (pins.pin(picture->pack_id(location->pack))) return true;
    refresh(*picture);  // a gc has removed the pack; the object may stand in another now
  }
}

bool Store::State::has(const ObjectKey& key) const {
  return keeps_found ? find_and_keep(key) : index()->find(key).has_value();
}

void Store::State::missing(const ObjectKey& key, const Index& picture) const {
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

// What the picture does not show, or shows in a pack that is gone, is looked for once more in a new one: a gc may have
// moved it.
void Store::State::locate(const ObjectKey& key, const std::function<void(const Index&, const Location&)>& use) const {
  for (int attempt = 1;; ++attempt) {
    std::shared_ptr<const Index> picture;
    auto location = find(key, picture);
    if (location) {
      try {
        use(*picture, *location);
        return;
      } catch (const Error& error) {
        if (error.kind != ErrorKind::kNotFound || attempt == kAttempts) throw;
      }
    } else if (attempt > 1) {
      missing(key, *picture);
    }
    refresh(*picture);
  }
}

void Store::State::refuse(std::unordered_map<Digest, Error, DigestHash> manifests) {
  std::lock_guard lock(mutex_);
  refused_ = std::move(manifests);
}

void Store::State::check_refused(const Digest& manifest) const {
  std::lock_guard lock(mutex_);
  const auto at = refused_.find(manifest);
  if (at != refused_.end()) throw Error(at->second);
}

std::shared_ptr<const KeyRing> Store::State::ring() const {
  if (!encrypted) return nullptr;
  if (!options.keys) {
    throw Error(ErrorKind::kRefused, fmt::format("{}: encrypted, and no key is unlocked", folder),
                "`mlx key list` says for whom it is locked");
  }
  return options.keys->ring();
}

// Where the object stands; its plain id where it stands nowhere, which nothing is stored under.
ObjectKey Store::State::key_of_encrypted(ObjectKind kind, const Digest& id) const {
  std::shared_ptr<const Index> picture = index();
  std::shared_ptr<const KeyRing> keys = ring();
  for (const DomainKey& key : keys->keys()) {
    ObjectKey candidate{storage_id(key, id), kind};
    if (picture->find(candidate)) return candidate;
  }
  return {id, kind};
}

void Store::State::decode(const ObjectKey& key, const Digest* id, Bytes& plain, const ReadBase& base) const {
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

void Store::State::read(const ObjectKey& key, Bytes& plain) const {
  decode(key, nullptr, plain, read_base());
}

void Store::State::read_part(const Digest& chunk, Bytes& plain) const {
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

bool Store::State::is_verified(const Digest& file) const {
  std::lock_guard lock(mutex_);
  return verified_.contains(file);
}

void Store::State::set_verified(const Digest& file) const {
  std::lock_guard lock(mutex_);
  verified_.insert(file);
}

void Store::State::read(ObjectKind kind, const Digest& id, Bytes& plain) const {
  if (kind == ObjectKind::kManifest) check_refused(id);
  ObjectKey key = key_of(kind, id);
  if (fetch && !index()->find(key) && fetch_missing(kind, id)) key = key_of(kind, id);
  decode(key, &id, plain, read_base());
}

ReadBase Store::State::read_base() const {
  return [this](const Digest& id) {
    Bytes plain;
    try {
      decode(key_of(ObjectKind::kChunk, id), &id, plain, {});
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kNotFound) throw;
      fail(ErrorKind::kCorrupt, "{}: chunk {}, which deltas stand on, is not here", folder, id.brief());
    }
    return plain;
  };
}

StoredObject Store::State::read_plain(ObjectKind kind, const Digest& id) const {
  StoredObject object = read_stored(key_of(kind, id));
  if (object.key_id == 0) return object;
  std::shared_ptr<const KeyRing> keys = ring();
  if (!keys) fail(ErrorKind::kCorrupt, "{}: object {} is encrypted, and this store is not", folder, id.brief());
  return open_object(*keys, id, object, folder);
}

StoredObject Store::State::read_stored(const ObjectKey& key) const {
  StoredObject object;
  locate(key, [&](const Index& picture, const Location& location) { object = picture.read_object(location); });
  return object;
}

bool Store::encrypted() const {
  return state_->encrypted;
}

const std::string& Store::domain() const {
  return state_->domain;
}

void Store::use_domain(const std::string& domain) {
  state_->domain = domain;
}

std::vector<Digest> Store::storage_ids(const Digest& id) const {
  std::vector<Digest> ids = {id};
  if (!state_->encrypted) return ids;
  std::shared_ptr<const KeyRing> ring = state_->ring();
  for (const DomainKey& key : ring->keys()) ids.push_back(storage_id(key, id));
  return ids;
}

const std::string& Store::folder() const {
  return state_->folder;
}

bool Store::has(ObjectKind kind, const Digest& id) const {
  return state_->has(state_->key_of(kind, id));
}

bool Store::has_blob(const Digest& id) const {
  return has(ObjectKind::kChunk, id) || has(ObjectKind::kChunkList, id);
}

Bytes Store::read(ObjectKind kind, const Digest& id) const {
  Bytes plain;
  state_->read(kind, id, plain);
  return plain;
}

void Store::keep_found() {
  state_->keeps_found = true;
}
void Store::stop_keeping() {
  state_->keeps_found = false;
}

std::unique_ptr<Batch> Store::begin() {
  keep_found();
  remove_stale_temporaries(state_->packs_folder, state_->index()->temporaries(), state_->disk);
  return make_batch(*state_);
}

std::vector<Digest> Store::operations() const {
  std::vector<Digest> ids;
  visit_operations(*this, [&](const Digest& id) { ids.push_back(id); });
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

StoreStat Store::stat() const {
  std::shared_ptr<const Index> picture = state_->index();
  StoreStat stat;
  stat.packs = picture->pack_count();
  picture->visit([&](const Location& location) {
    ++stat.objects;
    stat.stored_bytes += location.record.stored_size;
  });
  return stat;
}

void Store::refuse(std::unordered_map<Digest, Error, DigestHash> manifests) {
  state_->refuse(std::move(manifests));
}

void Store::on_missing(Fetch fetch) {
  state_->fetch = std::move(fetch);
}

void Store::want(const std::vector<Entry>& files) const {
  if (!state_->fetch) return;
  std::vector<Missing> absent;
  for (const Entry& file : files) {
    if (!has_whole_blob(file.content)) absent.push_back({ObjectKind::kChunkList, file.content, file.size});
  }
  if (absent.empty()) return;
  std::lock_guard lock(state_->fetch_mutex);
  state_->fetch(absent);  // reading says what is still not here
}

bool Store::State::fetch_missing(ObjectKind kind, const Digest& id) const {
  if (!fetch) return false;
  std::lock_guard lock(fetch_mutex);
  return index()->find(key_of(kind, id)) || fetch({{kind, id}});  // another thread may have brought it
}

void Store::reload() {
  state_->reload();
}

}  // namespace mlx::store
