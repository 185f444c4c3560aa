// Opening a store, and reading files and versions: a manifest's shards and entries, one entry by path, and everything
// below it.
#include "store/pack/store.h"

#include <algorithm>

#include "base/error.h"
#include "store/format/chunk_list.h"
#include "store/pack/layout.h"
#include "store/pack/store_state.h"
#include "store/pack/usage.h"
#include "store/temporary.h"

namespace mlx::store {

namespace {

[[noreturn]] void corrupt(const Digest& manifest, std::string_view why) {
  throw Error(ErrorKind::kCorrupt, fmt::format("manifest {}: {}", manifest.brief(), why),
              "`mlx fsck` looks for damage");
}

// One shard, compared with what the root says of it.
std::vector<Entry> read_shard(const Store& store, const Digest& manifest, const ShardRef& shard, bool last) {
  std::vector<Entry> entries = decode_shard(store.read(ObjectKind::kShard, shard.id));
  std::uint64_t bytes = 0;
  for (const Entry& entry : entries) bytes += entry.size;
  if (entries.size() != shard.files || bytes != shard.bytes || entries.front().path != shard.first_path) {
    corrupt(manifest, fmt::format("shard {} is not what the root says", shard.id.brief()));
  }
  if (!last && !ends_shard(entries.back().path)) {
    corrupt(manifest, fmt::format("shard {} ends where it must not", shard.id.brief()));
  }
  return entries;
}

}  // namespace

void Store::create(const std::string& folder, Disk& disk, bool encrypted) {
  settle_layout(folder, disk, encrypted);
}

Store::Store(const std::string& folder, Disk& disk, Pool& pool, StoreOptions options)
    : state_(std::make_unique<StoreState>(folder, disk, pool, std::move(options))) {
  state_->encrypted = read_layout(folder);
  state_->reload();
}

Store::~Store() = default;

const Interruption& Store::interruption() const {
  return *state_->options.interruption;
}

Disk& Store::disk() const {
  return state_->disk;
}

Pool& Store::pool() const {
  return state_->pool;
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
  return std::make_unique<Batch>(*state_);
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

BlobReader Store::open_blob(const Digest& id) const {
  if (!has_blob(id)) state_->fetch_missing(ObjectKind::kChunkList, id);
  return BlobReader(*state_, id);
}

Bytes Store::read_blob(const Digest& id) const {
  BlobReader reader = open_blob(id);
  // Grown as bytes come: a false list must not make us allocate what it claims.
  Bytes bytes;
  constexpr std::size_t kStep = std::size_t{1} << 20;
  while (bytes.size() < reader.size()) {
    std::size_t begin = bytes.size();
    bytes.resize(begin + static_cast<std::size_t>(std::min<std::uint64_t>(kStep, reader.size() - begin)));
    reader.read_at(begin, bytes.data() + begin, bytes.size() - begin);
  }
  return bytes;
}

std::vector<ShardRef> Store::shards(const Digest& manifest) const {
  return decode_root(read(ObjectKind::kManifest, manifest));
}

std::vector<Entry> Store::entries(const Digest& manifest) const {
  return entries_of(manifest, shards(manifest));
}

std::vector<Entry> Store::entries_of(const Digest& manifest, const std::vector<ShardRef>& list) const {
  std::vector<Entry> all;
  for (std::size_t i = 0; i < list.size(); ++i) {
    std::vector<Entry> part = read_shard(*this, manifest, list[i], i + 1 == list.size());
    if (!all.empty() && !(all.back().path < part.front().path)) corrupt(manifest, "its shards overlap");
    all.insert(all.end(), std::make_move_iterator(part.begin()), std::make_move_iterator(part.end()));
  }
  if (auto clash = find_path_clash(all))
    corrupt(manifest, fmt::format("'{}' is a file and also a folder of others", *clash));
  return all;
}

ManifestSummary Store::summarize(const Digest& manifest) const {
  ManifestSummary summary{manifest, 0, 0};
  for (const ShardRef& shard : shards(manifest)) {
    summary.files += shard.files;
    summary.bytes += shard.bytes;
  }
  return summary;
}

std::optional<Entry> Store::find(const Digest& manifest, const std::string& path) const {
  std::vector<ShardRef> list = shards(manifest);
  auto behind = std::upper_bound(list.begin(), list.end(), path, [](const std::string& wanted, const ShardRef& shard) {
    return wanted < shard.first_path;
  });
  if (behind == list.begin()) return {};
  std::vector<Entry> entries = read_shard(*this, manifest, *(behind - 1), behind == list.end());
  auto at = std::lower_bound(entries.begin(), entries.end(), path,
                             [](const Entry& entry, const std::string& wanted) { return entry.path < wanted; });
  if (at == entries.end() || at->path != path) return {};
  return *at;
}

void Store::visit_reachable_blob(const Digest& blob,
                                 const std::function<void(ObjectKind, const Digest&)>& visit) const {
  if (has(ObjectKind::kChunk, blob)) {
    visit(ObjectKind::kChunk, blob);
    return;
  }
  visit(ObjectKind::kChunkList, blob);
  std::string name = fmt::format("chunk list of {}", blob.brief());
  ChunkList list = decode_chunk_list(read(ObjectKind::kChunkList, blob), name);
  for (const ChunkItem& item : list.items) visit(ObjectKind::kChunk, item.id);
  if (list.level == 0) return;
  for (const ChunkItem& page : list.items) {
    ChunkList inner = decode_chunk_list(read(ObjectKind::kChunk, page.id), name);
    if (inner.level != 0) fail(ErrorKind::kCorrupt, "{}: a page of it is not a list of chunks", name);
    for (const ChunkItem& item : inner.items) visit(ObjectKind::kChunk, item.id);
  }
}

bool Store::has_whole_blob(const Digest& id) const {
  if (!has_blob(id)) return false;
  bool whole = true;
  try {
    visit_reachable_blob(id, [&](ObjectKind kind, const Digest& part) { whole = whole && has(kind, part); });
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kNotFound && error.kind != ErrorKind::kCorrupt) throw;
    return false;
  }
  return whole;
}

void Store::visit_reachable_manifest(const Digest& manifest,
                                     const std::function<void(ObjectKind, const Digest&)>& visit) const {
  visit(ObjectKind::kManifest, manifest);
  std::vector<ShardRef> list = shards(manifest);
  for (std::size_t i = 0; i < list.size(); ++i) {
    visit(ObjectKind::kShard, list[i].id);
    for (const Entry& entry : read_shard(*this, manifest, list[i], i + 1 == list.size())) {
      visit_reachable_blob(entry.content, visit);
    }
  }
}

FsckReport Store::fsck(Progress& progress) const {
  return check_store(*state_, progress);
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
  state_->fetch(absent);  // reading reports what is still absent
}

void Store::reload() {
  state_->reload();
}

}  // namespace mlx::store
