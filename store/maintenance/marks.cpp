// Marking level by level: all cores read the objects that name others and mark what those name; the marked objects that
// name others in turn are the next level.
#include "store/maintenance/marks.h"

#include "base/error.h"
#include "store/format/chunk_list.h"

namespace mlx::store {

Marks::Marks(const StoreState& store, const std::shared_ptr<const Index>& picture)
    : Marks(store, picture, open(*picture)) {}

Marks::Marks(const StoreState& store, std::shared_ptr<const Index> picture, Packs packs)
    : store_(store), picture_(std::move(picture)), packs_(std::move(packs)) {
  for (const auto& pack : packs_) marks_.push_back(std::make_unique<std::atomic<std::uint8_t>[]>(pack->table().size()));
}

Marks::Packs Marks::open(const Index& picture) {
  Packs packs;
  for (std::size_t pack = 0; pack < picture.pack_count(); ++pack) {
    packs.push_back(std::make_shared<const PackIndex>(picture.pack_path(pack), picture.pack_id(pack)));
    packs.back()->verify(picture.pack_path(pack));  // a flipped id would make a living object look dead
  }
  return packs;
}

bool Marks::names_others(const PackRecord& record) {
  return record.key.kind == ObjectKind::kChunkList || record.key.kind == ObjectKind::kManifest ||
         record.key.kind == ObjectKind::kShard || record.encoding == Encoding::kDelta;
}

void Marks::wait_for(const ObjectKey& key) {
  std::lock_guard guard(mutex_);
  waiting_.push_back(key);
}

void Marks::add_record(std::size_t pack, std::uint64_t record, const PackRecord& found) {
  if (marks_[pack][record].exchange(1, std::memory_order_relaxed) != 0) return;
  if (found.encoding == Encoding::kDelta) add_base(*picture_, {found, static_cast<std::uint32_t>(pack)});
  if (found.key.kind != ObjectKind::kChunk && names_others(found)) wait_for(found.key);
}

void Marks::add_base(const Index& index, const Location& delta) {
  StoredObject object{.key = delta.record.key, .encoding = delta.record.encoding};
  index.read_extra(delta, object.extra);
  if (auto base = base_of(object)) add(*base);
}

void Marks::add(const ObjectKey& key) {
  if (auto location = picture_->find(key)) {
    std::uint64_t record = packs_[location->pack]->table().find(key);
    if (record < packs_[location->pack]->table().size()) {
      add_record(location->pack, record, location->record);
      return;
    }
    fail(ErrorKind::kCorrupt, "multi.idx: names pack {} for an object that it does not have",
         picture_->pack_id(location->pack).brief());
  }
  std::lock_guard guard(mutex_);
  if (!elsewhere_.insert(key).second) return;
  if (names_others({.key = key})) waiting_.push_back(key);
}

void Marks::add_blob(const Digest& id) {
  add(store_.key_of(ObjectKind::kChunk, id));
  add(store_.key_of(ObjectKind::kChunkList, id));
}

void Marks::add_pack(std::size_t pack) {
  const RecordTable& table = packs_[pack]->table();
  for (std::uint64_t i = 0; i < table.size(); ++i) add_record(pack, i, table.at(i));
}

void Marks::add_pack_of(const Index& later, std::size_t pack) {
  PackIndex index(later.pack_path(pack), later.pack_id(pack));
  for (std::uint64_t i = 0; i < index.table().size(); ++i) {
    PackRecord record = index.table().at(i);
    add(record.key);
    if (record.encoding == Encoding::kDelta) add_base(later, {record, static_cast<std::uint32_t>(pack)});
  }
}

void Marks::add_blob_parts(ByteView bytes) {
  ChunkList list = decode_chunk_list(bytes, "chunk list");
  for (const ChunkItem& item : list.items) {
    ObjectKey key = store_.key_of(ObjectKind::kChunk, item.id);
    add(key);
    if (list.level == 1) wait_for(key);  // a page: a chunk that is a list itself
  }
}

void Marks::add_named(const ObjectKey& key) {
  Bytes plain;
  try {
    store_.read(key, plain);
  } catch (const Error& error) {
    // Never fetched, or its domain's key is erased: then nobody can read what it names either.
    if (error.kind == ErrorKind::kNotFound || error.kind == ErrorKind::kRefused) return;
    if (error.kind != ErrorKind::kCorrupt) throw;
    throw Error(ErrorKind::kCorrupt, error.message,
                "what it names cannot be known, so nothing is removed: run `mlx fsck --repair` first");
  }
  switch (key.kind) {
    case ObjectKind::kManifest:
      for (const ShardRef& shard : decode_root(plain)) add(store_.key_of(ObjectKind::kShard, shard.id));
      return;
    case ObjectKind::kShard:
      for (const Entry& entry : decode_shard(plain)) add_blob(entry.content);
      return;
    case ObjectKind::kChunkList:
    case ObjectKind::kChunk:
      add_blob_parts(plain);
      return;
    case ObjectKind::kOperation:
      return;
  }
}

void Marks::follow(Progress& progress) {
  while (!waiting_.empty()) {
    std::vector<ObjectKey> level;
    level.swap(waiting_);
    progress.begin("Marking", level.size(), "objects");
    store_.pool.run(static_cast<std::int64_t>(level.size()), [&](std::int64_t i) {
      progress.check_interrupted();
      add_named(level[static_cast<std::size_t>(i)]);
      progress.advance(1);
    });
    progress.end();
  }
}

}  // namespace mlx::store
