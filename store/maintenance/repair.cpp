// Copies first, then renames: an object that could be read before can be read at every moment.
#include "store/maintenance/repair.h"

#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "base/path.h"
#include "store/pack/check_pack.h"
#include "store/pack/layout.h"
#include "store/pack/pack_writer.h"
#include "store/pack/store_state.h"

namespace mlx::store {

namespace {

using KeySet = std::unordered_set<ObjectKey, ObjectKeyHash>;

struct Repair {
  StoreState& store;
  const FsckReport& fsck;
  Progress& progress;
  RepairReport report;
  TemporaryFiles temporaries;
  std::unique_ptr<PackWriter> writer;
  KeySet saved;
  PackSet written;

  Repair(StoreState& the_store, const FsckReport& the_fsck, Progress& the_progress)
      : store(the_store), fsck(the_fsck), progress(the_progress), temporaries(store.packs_folder, store.disk) {}

  std::string path_of(const Digest& pack) const { return join_path(store.packs_folder, pack.hex() + ".pack"); }
  KeySet damaged_in(const Digest& pack) const;
  std::vector<PackRecord> whole_in(const Digest& pack) const;
  void save(const Digest& pack);
  void publish();
  void set_aside(const Digest& pack);
};

KeySet Repair::damaged_in(const Digest& pack) const {
  KeySet keys;
  for (const DamagedObject& object : fsck.damaged_objects) {
    if (object.pack == pack) keys.insert({object.id, object.kind});
  }
  return keys;
}

// From the index if it is undamaged, else from the entries themselves, which are decoded to verify them.
std::vector<PackRecord> Repair::whole_in(const Digest& pack) const {
  std::string path = path_of(pack);
  std::vector<PackRecord> records;
  try {
    PackIndex index(path, pack);
    index.verify(path);
    for (std::uint64_t i = 0; i < index.table().size(); ++i) records.push_back(index.table().at(i));
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kCorrupt) throw;
    records = find_entries(path);
  }
  KeySet damaged = damaged_in(pack);
  std::erase_if(records, [&](const PackRecord& record) { return damaged.contains(record.key); });
  std::ranges::sort(records, {}, &PackRecord::offset);
  return records;
}

void Repair::publish() {
  if (!writer) return;
  std::string temporary = writer->path();
  Digest id = writer->seal();
  verify_pack(temporary, id);
  store.disk.rename(temporary, path_of(id));
  temporaries.published(temporary);
  writer.reset();
  written.insert(id);
}

void Repair::save(const Digest& pack) {
  MappedFile file(path_of(pack));
  ByteView bytes = file.bytes();
  Bytes plain;
  for (const PackRecord& record : whole_in(pack)) {
    progress.check_interrupted();
    if (record.offset > bytes.size() || record.stored_size > bytes.size() - record.offset) continue;
    StoredObject object{record.key, record.encoding, record.key_id, record.plain_size, record.checksum, {}, {}};
    ByteView extra = bytes.subspan(record.offset - record.extra_size, record.extra_size);
    ByteView stored = bytes.subspan(record.offset, record.stored_size);
    object.extra.assign(extra.begin(), extra.end());
    object.stored.assign(stored.begin(), stored.end());
    try {
      check_stored(record, stored, path_of(pack));
      if (record.key_id == 0) store.codecs.lend()->decode(record, stored, plain, path_of(pack), store.read_base());
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kCorrupt && error.kind != ErrorKind::kNotFound) throw;
      continue;
    }
    if (!saved.insert(record.key).second) continue;
    if (!writer) writer = std::make_unique<PackWriter>(temporaries.next(), store.disk);
    writer->append(object);
    report.saved_objects += 1;
    if (writer->size() >= store.options.pack_size) publish();
  }
}

// ID.pack → ID.pack.damaged-N
void Repair::set_aside(const Digest& pack) {
  std::string path = path_of(pack);
  // Only its index was damaged: the new pack has replaced it under the same name.
  if (written.contains(pack) || !path_exists(path)) return;
  int n = 1;
  while (path_exists(fmt::format("{}.damaged-{}", path, n))) ++n;
  std::string aside = fmt::format("{}.damaged-{}", path, n);
  store.disk.rename(path, aside);
  report.set_aside.push_back(aside);
}

}  // namespace

RepairReport set_damage_aside(Store& the_store, const FsckReport& fsck, Progress& progress) {
  StoreState& store = StoreAccess::state(the_store);
  Repair repair(store, fsck, progress);
  settle_layout(store.folder, store.disk, store.encrypted);
  if (fsck.damaged_packs.empty() && !fsck.multi_damaged) return {};
  Fd running = lock_removals(store.packs_folder, store.disk);
  progress.begin("Repairing packs", fsck.damaged_packs.size(), "packs");
  for (const Digest& pack : fsck.damaged_packs) {
    repair.save(pack);
    progress.advance(1);
  }
  repair.publish();
  store.disk.sync_folder(store.packs_folder);
  {
    RemovalLock lock(store.packs_folder, store.disk, RemovalLock::How::kExclusive);
    if (fsck.multi_damaged) store.disk.remove(join_path(store.packs_folder, "multi.idx"));
    for (const Digest& pack : fsck.damaged_packs) repair.set_aside(pack);
    store.disk.sync_folder(store.packs_folder);
  }
  repair.temporaries.release();
  progress.end();
  store.reload_anew();
  for (const DamagedObject& object : fsck.damaged_objects) {
    if (!store.index()->find({object.id, object.kind})) repair.report.lost.emplace_back(object.kind, object.id);
  }
  return repair.report;
}

std::uint64_t shred_set_aside(Store& the_store) {
  StoreState& store = StoreAccess::state(the_store);
  std::uint64_t count = 0;
  for (const std::string& name : list_folder(store.packs_folder)) {
    if (name.find(".pack.damaged-") == std::string::npos) continue;
    shred(store.disk, join_path(store.packs_folder, name));
    count += 1;
  }
  return count;
}

}  // namespace mlx::store
