// Packs of one batch. What names other objects (lists, shards, manifests, operations) waits in memory and is written
// behind everything it may name; packs are published in that order with the folder synced between, so that at no
// instant, not even after a power loss, an object can be found whose parts cannot.
#include "store/pack/batch.h"

#include "base/error.h"
#include "base/log.h"
#include "base/path.h"
#include "store/pack/cipher.h"

namespace mlx::store {

namespace {

constexpr std::size_t kMetaInMemory = std::size_t{32} << 20;

}  // namespace

std::unique_ptr<Batch> make_batch(Store::State& store) {
  return std::make_unique<PackBatch>(store);
}

PackBatch::PackBatch(Store::State& store)
    : store_(store), ring_(store.ring()), domain_(store.domain), temporaries_(store.packs_folder, store.disk) {}

PackBatch::~PackBatch() {
  // They write to members of this.
  for (Background* thread : {writing_.get(), sealing_.get()}) {
    try {
      if (thread) thread->wait();
    } catch (...) {
      // Nothing was promised: the batch is dropped.
    }
  }
}

// Where the object stands in the domain already, or where it is to go.
PackBatch::Target PackBatch::target_of(ObjectKind kind, const Digest& id, const std::string& content_domain) const {
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

bool PackBatch::claim(const ObjectKey& key) {
  std::lock_guard lock(mutex_);
  if (pending_.contains(key) || store_.find_and_keep(key)) return false;
  pending_.insert(key);
  return true;
}

void PackBatch::put(ObjectKind kind, const Digest& id, ByteView plain, int width, const Digest* base) {
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

void PackBatch::put_under_current_key(ObjectKind kind, const Digest& id, ByteView plain) {
  const DomainKey& current = ring_->current(domain_);
  if (!claim({storage_id(current, id), kind})) return;
  append(seal(current, store_.codecs.lend()->encode({id, kind}, id, plain), {}));
}

void PackBatch::add_stored(const StoredObject& object) {
  const bool seals = ring_ && object.key_id == 0;
  // Content stays in the domain that it came from, or shredding that domain's key would not erase it here.
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

Digest PackBatch::add(ObjectKind kind, ByteView bytes) {
  Digest id = Digest::of(bytes);
  put(kind, id, bytes);
  return id;
}

void PackBatch::append(StoredObject object) {
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

void PackBatch::append_to_pack(const StoredObject& object) {
  if (!writing_) writing_ = std::make_unique<Background>();
  if (!writer_) writer_ = std::make_unique<PackWriter>(temporaries_.next(), store_.disk, writing_.get());
  writer_->append(object);
  if (writer_->size() >= store_.options.pack_size) close_pack();
}

void PackBatch::close_pack() {
  auto sealed = std::make_shared<Sealed>();
  sealed->temporary = writer_->path();
  data_packs_.push_back(sealed);
  if (!sealing_) sealing_ = std::make_unique<Background>();
  // Behind the last of its writes; the next pack is written while this one is synced.
  writing_->post([this, writer = std::shared_ptr<PackWriter>(std::move(writer_)), sealed] {
    sealing_->post([writer, sealed] { sealed->id = writer->seal(); });
  });
}

// Into the open pack where there is one (which then is published behind the others), else into one of its own.
void PackBatch::flush_meta() {
  if (meta_.empty()) return;
  if (!writer_) writer_ = std::make_unique<PackWriter>(temporaries_.next(), store_.disk);
  for (const StoredObject& object : meta_) writer_->append(object);
  auto sealed = std::make_shared<Sealed>();
  sealed->temporary = writer_->path();
  if (writing_) writing_->wait();
  sealed->id = writer_->seal();
  writer_.reset();
  meta_packs_.push_back(sealed);
  meta_.clear();
  meta_bytes_ = 0;
}

// Where a delta is worth its dependency: an eighth smaller than `whole` bytes. A base that is a delta itself leads to
// what that one is based on.
std::optional<StoredObject> PackBatch::encode_delta(const Target& target, const Digest& id, ByteView plain, int width,
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

// Until the command has recorded what refers to them.
void PackBatch::pin_new_packs() {
  std::vector<Digest> ids;
  for (const auto* packs : {&data_packs_, &meta_packs_}) {
    for (const auto& sealed : *packs) ids.push_back(sealed->id);
  }
  store_.pins.pin_new(ids);
}

void PackBatch::publish(const Sealed& sealed) {
  store_.disk.rename(sealed.temporary, join_path(store_.packs_folder, sealed.id.hex() + ".pack"));
  temporaries_.published(sealed.temporary);
}

void PackBatch::commit() {
  std::lock_guard lock(mutex_);
  if (broken_) fail(ErrorKind::kIo, "{}: nothing was stored: an object before could not be written", store_.folder);
  bool any = writer_ || !meta_.empty() || !data_packs_.empty() || !meta_packs_.empty();
  if (any) {
    if (meta_.empty() && writer_) close_pack();
    flush_meta();
    if (writing_) writing_->wait();
    if (sealing_) sealing_->wait();
    if (received_) verify_received();
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

// The packs are durable and visible: where this fails the old index files still hold.
void PackBatch::merge_indexes() {
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
