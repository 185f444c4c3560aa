// Opening a store and looking objects up; the tree of manifests is in manifest_tree.cpp, files' content in
// blob_reader.cpp, writing in batch.cpp, verification in fsck.cpp.
#include <algorithm>

#include "base/error.h"
#include "base/path.h"
#include "store/batch.h"
#include "store/cipher.h"
#include "store/store_state.h"
#include "store/temporary.h"

namespace mlx::store {

namespace {

constexpr std::string_view kLayout = "mlx store 1\n", kEncryptedLayout = "mlx store 1\nencrypted\n";

std::string packs_of(const std::string& folder) {
  return join_path(folder, "packs");
}

// An encrypted operation says which it is only when it is read.
Digest plain_id_of_operation(const Store::State& store, const ObjectKey& key) {
  StoredObject sealed = store.read_stored(key);
  std::shared_ptr<const KeyRing> ring = store.ring();
  const DomainKey* with = ring->find(sealed.key_id);
  if (!with)
    fail(ErrorKind::kRefused, "{}: operation {} is under a key that is not here", store.folder, key.id.brief());
  Bytes payload = open_sealed(*with, sealed, store.folder), plain;
  store.codecs.lend()->decode_unidentified(record_of(sealed), payload, plain, store.folder);
  return Digest::of(plain);
}

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
  std::string packs = packs_of(folder);
  std::string format = join_path(packs, "FORMAT");
  make_folders(packs);
  if (path_exists(format)) return;
  TemporaryFiles temporaries(packs, disk);
  std::string path = temporaries.next();
  Fd fd = disk.create(path);
  disk.write(fd, as_bytes(encrypted ? kEncryptedLayout : kLayout), path);
  disk.sync(fd, path);
  disk.rename(path, format);
  temporaries.published(path);
  disk.sync_folder(packs);
  temporaries.release();
}

Store::Store(const std::string& folder, Disk& disk, Pool& pool, StoreOptions options)
    : state_(std::make_unique<State>(folder, disk, pool, options)) {
  state_->packs_folder = packs_of(folder);
  std::string format = join_path(state_->packs_folder, "FORMAT");
  if (!path_exists(format)) {
    throw Error(ErrorKind::kNotFound, fmt::format("{}: there is no mlx store here ({} is missing)", folder, format),
                "make one with 'mlx init'");
  }
  std::string layout = read_text(format);
  state_->encrypted = layout == kEncryptedLayout;
  if (layout != kLayout && !state_->encrypted) {
    throw Error(ErrorKind::kCorrupt, fmt::format("{}: unknown layout of the store", format),
                "if a newer mlx wrote it, upgrade this one");
  }
  state_->reload();
}

Store::~Store() = default;

void Store::State::reload() {
  std::shared_ptr<const Index> previous = index();
  std::shared_ptr<const Index> fresh = Index::load(packs_folder, previous.get());
  std::lock_guard lock(mutex_);
  index_ = std::move(fresh);
}

std::optional<Location> Store::State::find(const ObjectKey& key, std::shared_ptr<const Index>& picture) const {
  picture = index();
  return picture->find(key);
}

void Store::State::missing(const ObjectKey& key, const Index& picture) const {
  if (!picture.broken().empty()) {
    throw Error(ErrorKind::kCorrupt,
                fmt::format("{} {} is not in the store, and a pack is damaged: {}", name_of(key.kind), key.id.brief(),
                            picture.broken().front()),
                "'mlx fsck' lists what is lost; 'mlx pull' fetches it from a remote that has it");
  }
  throw Error(ErrorKind::kNotFound,
              fmt::format("{}: {} {} is not in the store", folder, name_of(key.kind), key.id.brief()),
              "`mlx pull` fetches what the pointers name, `mlx fetch --all` everything that a remote has");
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

void Store::State::decode(ObjectKind kind, const Digest& id, Bytes& plain, const ReadBase& base) const {
  ObjectKey key = key_of(kind, id);
  std::shared_ptr<const Index> picture;
  auto location = find(key, picture);
  if (!location) missing(key, *picture);
  std::string where = picture->pack_path(location->pack);
  if (location->record.key_id != 0) {
    std::shared_ptr<const KeyRing> keys = ring();
    if (!keys) fail(ErrorKind::kCorrupt, "{}: object {} is encrypted, and this store is not", where, id.brief());
    StoredObject opened = open_object(*keys, id, read_stored(key), where);
    codecs.lend()->decode(record_of(opened), opened.stored, plain, where, base);
    return;
  }
  Bytes stored;
  picture->read_stored(*location, stored);
  codecs.lend()->decode(location->record, stored, plain, where, base);
}

void Store::State::read(ObjectKind kind, const Digest& id, Bytes& plain) const {
  if (kind == ObjectKind::kManifest) check_refused(id);
  decode(kind, id, plain, read_base());
}

ReadBase Store::State::read_base() const {
  return [this](const Digest& id) {
    ObjectKey key = key_of(ObjectKind::kChunk, id);
    if (!index()->find(key))
      fail(ErrorKind::kCorrupt, "{}: chunk {}, which deltas stand on, is not here", folder, id.brief());
    Bytes plain;
    decode(ObjectKind::kChunk, id, plain, {});
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
  std::shared_ptr<const Index> picture;
  auto location = find(key, picture);
  if (!location) missing(key, *picture);
  const PackRecord& record = location->record;
  StoredObject object{record.key, record.encoding, record.key_id, record.plain_size, record.checksum, {}, {}};
  picture->read_stored(*location, object.stored);
  picture->read_extra(*location, object.extra);
  check_stored(record, object.stored, picture->pack_path(location->pack));
  return object;
}

bool Store::encrypted() const {
  return state_->encrypted;
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
  return state_->index()->find(state_->key_of(kind, id)).has_value();
}

bool Store::has_blob(const Digest& id) const {
  return has(ObjectKind::kChunk, id) || has(ObjectKind::kChunkList, id);
}

Bytes Store::read(ObjectKind kind, const Digest& id) const {
  Bytes plain;
  state_->read(kind, id, plain);
  return plain;
}

std::unique_ptr<Batch> Store::begin() {
  remove_stale_temporaries(state_->packs_folder, state_->index()->temporaries(), state_->disk);
  return make_batch(*state_);
}

std::vector<Digest> Store::operations() const {
  std::vector<Digest> ids;
  state_->index()->visit([&](const Location& location) {
    if (location.record.key.kind != ObjectKind::kOperation) return;
    ids.push_back(state_->encrypted ? plain_id_of_operation(*state_, location.record.key) : location.record.key.id);
  });
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

void Store::reload() {
  state_->reload();
}

}  // namespace mlx::store
