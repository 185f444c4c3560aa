// Packs of one batch. Objects that name others (lists, shards, manifests, operations) wait in memory and are written
// behind everything that they may name. Packs are published in that order, and the folder is synced in between. So at
// no instant, not even after a power loss, can an object be found whose parts cannot.
#include "store/pack/batch.h"

#include <algorithm>

#include "base/error.h"
#include "base/foreign_files.h"
#include "base/log.h"
#include "base/path.h"
#include "store/format/chunker.h"
#include "store/pack/blob_writer.h"
#include "store/pack/cipher.h"
#include "store/pack/store_state.h"

namespace mlx::store {

namespace {

constexpr std::size_t kMetaInMemory = std::size_t{32} << 20;

// kUsage if a path occurs twice or is a folder of another one.
void check_tree(const std::vector<Entry>& sorted) {
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (!is_safe_relative(sorted[i].path) || has_private_part(sorted[i].path))
      fail(ErrorKind::kUsage, "'{}': not a path that can be stored", sorted[i].path);
    if (is_too_long(sorted[i].path)) {
      fail(ErrorKind::kUsage, "'{}…': longer than 4095 bytes, or a part of it than 255", sorted[i].path.substr(0, 80));
    }
    if (i > 0 && sorted[i].path == sorted[i - 1].path) fail(ErrorKind::kUsage, "'{}': occurs twice", sorted[i].path);
  }
  if (auto clash = find_path_clash(sorted)) {
    fail(ErrorKind::kUsage, "'{}': is a file and also a folder of others", *clash);
  }
}

}  // namespace

Batch::Batch(StoreState& store)
    : store_(store), ring_(store.ring()), domain_(store.domain), temporaries_(store.packs_folder, store.disk) {}

Batch::~Batch() {
  // They use members of this object.
  for (Background* thread : {writing_.get(), sealing_.get()}) {
    try {
      if (thread) thread->wait();
    } catch (...) {
      // The batch is dropped without commit: nothing was promised.
    }
  }
}

// The key that the object is stored under in the domain, else the one to store it under.
Batch::Target Batch::target_of(ObjectKind kind, const Digest& id, const std::string& content_domain) const {
  if (!ring_) return {{id, kind}, nullptr};
  const std::string domain = kind == ObjectKind::kOperation ? kHistoryDomain : content_domain;
  std::shared_ptr<const Index> index = store_.index();
  for (const DomainKey& key : ring_->keys()) {
    ObjectKey candidate{storage_id(key, id), kind};
    if (key.domain == domain && index->find(candidate)) return {candidate, &key};
  }
  const DomainKey& current = ring_->current(domain);
  return {{storage_id(current, id), kind}, &current};
}

bool Batch::claim(const ObjectKey& key) {
  std::lock_guard lock(mutex_);
  if (pending_.contains(key) || store_.find_and_keep(key)) return false;
  pending_.insert(key);
  return true;
}

void Batch::put(ObjectKind kind, const Digest& id, ByteView plain, int width, const Digest* base) {
  const Target target = target_of(kind, id, domain_);
  if (!claim(target.key)) return;
  try {
    StoredObject object = store_.codecs.lend()->encode({id, kind}, id, plain, width);
    if (base) {
      if (auto delta = encode_delta(target, id, plain, width, *base, object.stored.size())) object = std::move(*delta);
    }
    append(target.with ? seal(*target.with, object, object.extra) : std::move(object));
  } catch (...) {
    std::lock_guard lock(mutex_);
    broken_ = true;
    throw;
  }
}

void Batch::put_under_current_key(ObjectKind kind, const Digest& id, ByteView plain) {
  const DomainKey& current = ring_->current(domain_);
  if (!claim({storage_id(current, id), kind})) return;
  append(seal(current, store_.codecs.lend()->encode({id, kind}, id, plain), {}));
}

void Batch::add_stored(const StoredObject& object) {
  const bool seals = ring_ && object.key_id == 0;
  // Content stays in the domain that it came from. Otherwise shredding that domain's key would not erase it here.
  const DomainKey* came_under = seals && object.came_under != 0 ? ring_->find(object.came_under) : nullptr;
  const std::string& domain = came_under ? came_under->domain : domain_;
  const Target target = seals ? target_of(object.key.kind, object.key.id, domain) : Target{object.key, nullptr};
  if (!claim(target.key)) return;
  try {
    check_received(object, store_.codecs);
    const std::optional<ObjectKey> base = base_of(object);
    if (base) store_.find_and_keep(store_.key_of(base->kind, base->id));
    const Digest base_id = seals && base ? target_of(base->kind, base->id, domain).key.id : Digest();
    append(seals ? seal(*target.with, object, base ? ByteView(base_id.bytes) : ByteView()) : object);
    std::lock_guard lock(mutex_);
    received_ = true;
    if (object.key.kind == ObjectKind::kChunkList && object.key_id == 0)
      received_lists_.emplace_back(object.key.id, target.key);
  } catch (...) {
    std::lock_guard lock(mutex_);
    broken_ = true;
    throw;
  }
}

Digest Batch::add(ObjectKind kind, ByteView bytes) {
  Digest id = Digest::of(bytes);
  put(kind, id, bytes);
  return id;
}

Digest Batch::add_stream(const std::function<std::size_t(void*, std::size_t)>& read, std::uint64_t size_hint) {
  return write_blob(*this, read, size_hint, nullptr, [](std::uint64_t) {}).id;
}

Digest Batch::add_blob(ByteView bytes, const Digest* base) {
  std::size_t offset = 0;
  auto read = [&](void* data, std::size_t count) {
    count = std::min(count, bytes.size() - offset);
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), count, static_cast<std::uint8_t*>(data));
    offset += count;
    return count;
  };
  return write_blob(*this, read, bytes.size(), base, [](std::uint64_t) {}).id;
}

void Batch::use_bases(const std::vector<Entry>& before) {
  for (const Entry& entry : before) {
    if (entry.size > kTargetChunk && entry.mode != kModeLink) bases_.emplace(entry.path, entry);
  }
}

const Digest* Batch::base_file(const std::string& stored_as, std::uint64_t size) const {
  if (auto found = bases_.find(stored_as); found != bases_.end()) return &found->second.content;
  std::string folder = stored_as.substr(0, stored_as.rfind('/') + 1);
  std::string ending = stored_as.substr(std::min(stored_as.size(), stored_as.rfind('.')));
  const Digest* last = nullptr;
  for (auto at = bases_.lower_bound(folder); at != bases_.end() && at->first.starts_with(folder); ++at) {
    const Entry& entry = at->second;
    bool beside = entry.path.find('/', folder.size()) == std::string::npos && entry.path.ends_with(ending);
    std::uint64_t apart = entry.size > size ? entry.size - size : size - entry.size;
    if (beside && apart <= size / 100) last = &entry.content;
  }
  return last;
}

ManifestSummary Batch::add_manifest(std::vector<Entry> entries) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.path < b.path; });
  check_tree(entries);
  ManifestSummary summary;
  std::vector<ShardRef> shards;
  for (const std::span<const Entry> part : cut_shards(entries)) {
    ShardRef shard;
    shard.first_path = part.front().path;
    shard.files = part.size();
    for (const Entry& entry : part) shard.bytes += entry.size;
    shard.id = add(ObjectKind::kShard, encode_shard(part));
    summary.files += shard.files;
    summary.bytes += shard.bytes;
    shards.push_back(std::move(shard));
  }
  summary.id = add(ObjectKind::kManifest, encode_root(shards));
  return summary;
}

Pool& Batch::pool() {
  return store_.pool;
}

const Interruption& Batch::interruption() const {
  return *store_.options.interruption;
}

void Batch::append(StoredObject object) {
  std::lock_guard lock(mutex_);
  if (object.key.kind == ObjectKind::kChunk) {
    append_to_pack(object);
    return;
  }
  meta_bytes_ += object.stored.size() + kEntryHeaderSize;
  object.stored.shrink_to_fit();
  meta_.push_back(std::move(object));
  if (meta_bytes_ > kMetaInMemory) {
    if (writer_) close_pack();
    flush_meta();
  }
}

void Batch::append_to_pack(const StoredObject& object) {
  if (!writing_) writing_ = std::make_unique<Background>();
  if (!writer_) writer_ = std::make_unique<PackWriter>(temporaries_.next(), store_.disk, writing_.get());
  writer_->append(object);
  if (writer_->size() >= store_.options.pack_size) close_pack();
}

void Batch::close_pack() {
  auto sealed = std::make_shared<ReceivedPack>();
  sealed->temporary = writer_->path();
  data_packs_.push_back(sealed);
  if (!sealing_) sealing_ = std::make_unique<Background>();
  // After the last of its writes. The next pack is written while this one is synced.
  writing_->post([this, writer = std::shared_ptr<PackWriter>(std::move(writer_)), sealed] {
    sealing_->post([writer, sealed] { sealed->id = writer->seal(); });
  });
}

// Into the open pack, which is then published behind the others, or else into a pack of its own.
void Batch::flush_meta() {
  if (meta_.empty()) return;
  if (!writer_) writer_ = std::make_unique<PackWriter>(temporaries_.next(), store_.disk);
  for (const StoredObject& object : meta_) writer_->append(object);
  auto sealed = std::make_shared<ReceivedPack>();
  sealed->temporary = writer_->path();
  if (writing_) writing_->wait();
  sealed->id = writer_->seal();
  writer_.reset();
  meta_packs_.push_back(sealed);
  meta_.clear();
  meta_bytes_ = 0;
}

// nullopt unless the delta is an eighth smaller than `whole` bytes, which is worth the dependency. If the base is a
// delta itself, its own base is used.
std::optional<StoredObject> Batch::encode_delta(const Target& target, const Digest& id, ByteView plain, int width,
                                                const Digest& base, std::size_t whole) {
  std::shared_ptr<const Index> index = store_.index();
  DeltaBase from{base, target_of(ObjectKind::kChunk, base, domain_).key, {}};
  auto location = index->find(from.key);
  if (!location || location->record.plain_size != plain.size()) return {};
  if (location->record.encoding == Encoding::kDelta) {
    from.id = delta_base(store_.read_plain(ObjectKind::kChunk, base).stored, store_.packs_folder);
    from.key = target_of(ObjectKind::kChunk, from.id, domain_).key;
  }
  if (!store_.find_and_keep(from.key)) return {};
  Bytes bytes = store_.read_base()(from.id);
  from.plain = bytes;
  if (bytes.size() != plain.size() || from.key == target.key) return {};
  return store_.codecs.lend()->encode_delta({id, ObjectKind::kChunk}, plain, width, from, whole - whole / 8);
}

std::vector<ReceivedPack> Batch::new_packs() const {
  std::vector<ReceivedPack> packs;
  for (const auto* sealed : {&data_packs_, &meta_packs_}) {
    for (const auto& pack : *sealed) packs.push_back(*pack);
  }
  return packs;
}

// Until the command has recorded a reference to them.
void Batch::pin_new_packs() {
  std::vector<Digest> ids;
  for (const ReceivedPack& pack : new_packs()) ids.push_back(pack.id);
  store_.pins.pin_new(ids);
}

void Batch::publish(const ReceivedPack& sealed) {
  store_.disk.rename(sealed.temporary, join_path(store_.packs_folder, sealed.id.hex() + ".pack"));
  temporaries_.published(sealed.temporary);
}

void Batch::commit() {
  std::lock_guard lock(mutex_);
  if (broken_) fail(ErrorKind::kIo, "{}: nothing was stored: an earlier object could not be written", store_.folder);
  bool any = writer_ || !meta_.empty() || !data_packs_.empty() || !meta_packs_.empty();
  if (any) {
    if (meta_.empty() && writer_) close_pack();
    flush_meta();
    if (writing_) writing_->wait();
    if (sealing_) sealing_->wait();
    if (received_) verify_received(store_, ring_.get(), new_packs(), received_lists_);
    pin_new_packs();
    for (const auto& sealed : data_packs_) publish(*sealed);
    if (!data_packs_.empty()) store_.disk.sync_folder(store_.packs_folder);
    for (const auto& sealed : meta_packs_) {
      publish(*sealed);
      store_.disk.sync_folder(store_.packs_folder);
    }
    data_packs_.clear();
    meta_packs_.clear();
    store_.reload();
    merge_indexes();
  }
  pending_.clear();
  received_lists_.clear();
  temporaries_.release();
}

// The packs are durable and visible already: if this fails, the old index files still hold.
void Batch::merge_indexes() {
  std::shared_ptr<const Index> index = store_.index();
  if (!index->wants_merge()) return;
  try {
    std::string temporary = temporaries_.next();
    index->write_multi(temporary, store_.disk);
    temporaries_.published(temporary);
    store_.reload();
  } catch (const Error& error) {
    log("index over many packs was not written: {}", error.message);
  }
}

}  // namespace mlx::store
