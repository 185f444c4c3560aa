// Opening a store and looking objects up; the tree of manifests is in manifest_tree.cpp, files' content in
// blob_reader.cpp, writing in batch.cpp, verification in fsck.cpp.
#include <algorithm>

#include "base/error.h"
#include "base/path.h"
#include "store/batch.h"
#include "store/store_state.h"
#include "store/temporary.h"

namespace mlx::store {

namespace {

constexpr std::string_view kLayout = "mlx store 1\n";
constexpr int kAttempts = 20;  // packs that vanish while they are looked up

std::string packs_of(const std::string& folder) {
  return join_path(folder, "packs");
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

void Store::create(const std::string& folder, Disk& disk) {
  std::string packs = packs_of(folder);
  std::string format = join_path(packs, "FORMAT");
  make_folders(packs);
  if (path_exists(format)) return;
  TemporaryFiles temporaries(packs, disk);
  std::string path = temporaries.next();
  Fd fd = disk.create(path);
  disk.write(fd, as_bytes(kLayout), path);
  disk.sync(fd, path);
  disk.rename(path, format);
  temporaries.published(path);
  disk.sync_folder(packs);
  temporaries.release();
}

Store::Store(const std::string& folder, Disk& disk, Pool& pool, StoreOptions options)
    : state_(std::make_unique<State>(folder, disk, pool, options)) {
  std::string format = join_path(state_->packs_folder, "FORMAT");
  if (!path_exists(format)) {
    throw Error(ErrorKind::kNotFound, fmt::format("{}: there is no mlx store here ({} is missing)", folder, format),
                "make one with 'mlx init'");
  }
  if (std::string layout = read_text(format); layout != kLayout) {
    throw Error(ErrorKind::kCorrupt, fmt::format("{}: unknown layout of the store", format),
                "if a newer mlx wrote it, upgrade this one");
  }
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
                "'mlx fsck' lists what is lost; 'mlx pull' fetches it from a remote that has it");
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

void Store::State::read(const ObjectKey& key, Bytes& plain) const {
  locate(key, [&](const Index& picture, const Location& location) {
    Bytes stored;
    picture.read_stored(location, stored);
    codecs.lend()->decode(location.record, stored, plain, picture.pack_path(location.pack), read_base());
  });
}

void Store::State::read(ObjectKind kind, const Digest& id, Bytes& plain) const {
  ObjectKey key = key_of(kind, id);
  if (fetch && !index()->find(key)) fetch_missing(kind, id);
  read(key, plain);
}

ReadBase Store::State::read_base() const {
  return [this](const Digest& id) {
    Bytes plain;
    try {
      locate(key_of(ObjectKind::kChunk, id), [&](const Index& picture, const Location& location) {
        Bytes stored;
        picture.read_stored(location, stored);
        codecs.lend()->decode(location.record, stored, plain, picture.pack_path(location.pack));
      });
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kNotFound) throw;
      fail(ErrorKind::kCorrupt, "{}: chunk {}, which deltas stand on, is not here", folder, id.brief());
    }
    return plain;
  };
}

StoredObject Store::State::read_stored(const ObjectKey& key) const {
  StoredObject object;
  locate(key, [&](const Index& picture, const Location& location) { object = picture.read_object(location); });
  return object;
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

std::unique_ptr<Batch> Store::begin() {
  keep_found();
  remove_stale_temporaries(state_->packs_folder, state_->index()->temporaries(), state_->disk);
  return make_batch(*state_);
}

std::vector<Digest> Store::operations() const {
  std::vector<Digest> ids;
  state_->index()->visit([&](const Location& location) {
    if (location.record.key.kind == ObjectKind::kOperation) ids.push_back(location.record.key.id);
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

void Store::on_missing(Fetch fetch) {
  state_->fetch = std::move(fetch);
}

void Store::want(const std::vector<Digest>& blobs) const {
  if (!state_->fetch) return;
  std::vector<std::pair<ObjectKind, Digest>> absent;
  for (const Digest& blob : blobs) {
    if (!has_whole_blob(blob)) absent.emplace_back(ObjectKind::kChunkList, blob);
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
