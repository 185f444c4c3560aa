// Verifies every stored byte: packs one by one (check_pack.h), files against their ids, and the index over many packs.
#include "store/pack/fsck.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include "base/error.h"
#include "base/fd.h"
#include "store/format/chunk_list.h"
#include "store/pack/check_pack.h"
#include "store/pack/cipher.h"
#include "store/pack/layout.h"
#include "store/pack/store_state.h"

namespace mlx::store {

namespace {

constexpr std::size_t kListsAtOnce = 4096;

// Checks that chunk lists make their files: a list has its file's id, so only the file's content shows that it is the
// right list. A list with absent or damaged chunks is not judged. Each list is read from its own pack, since another
// pack may hold another list under the same id.
class ListCheck {
 public:
  ListCheck(const StoreState& store, const Index& index, const KeyRing* ring, const FsckReport& report)
      : store_(store), index_(index), ring_(ring) {
    for (const DamagedObject& object : report.damaged_objects) {
      damaged_.insert({object.id, object.kind});
      if (object.kind == ObjectKind::kChunkList) damaged_lists_.emplace(object.pack, object.id);
    }
  }

  struct Finding {
    std::string problem, unread;  // at most one is not ""
  };
  Finding check(const Location& location) const {
    const PackRecord& record = location.record;
    if (damaged_lists_.contains({index_.pack_id(location.pack), record.key.id})) return {};
    const DomainKey* key = record.key_id == 0 || !ring_ ? nullptr : ring_->find(record.key_id);
    if (record.key_id != 0 && !key) return {};
    const std::string what = fmt::format("{}: offset {}: chunk list of {}", index_.pack_path(location.pack),
                                         record.offset, record.key.id.brief());
    try {
      const ChunkList list = decode_chunk_list(read(location, key), what);
      if (!is_whole(list, what)) return {};
      const ReadChunk read_chunk = [&](const Digest& id, Bytes& plain) {
        store_.options.interruption->check();
        store_.read_part(id, plain);
      };
      const Digest file = hash_whole(list, read_chunk, store_.pool, what);
      if ((key ? storage_id(*key, file) : file) == record.key.id) return {};
      return {fmt::format("{}: its chunks are not the file's content", what), {}};
    } catch (const Error& error) {
      if (error.kind == ErrorKind::kInterrupted) throw;
      if (error.kind == ErrorKind::kNotFound) return {};
      if (error.kind == ErrorKind::kIo) return {{}, error.message};
      return {error.message, {}};
    }
  }

 private:
  Bytes read(const Location& location, const DomainKey* key) const {
    const StoredObject object = index_.read_object(location);
    const std::string where = index_.pack_path(location.pack);
    Bytes plain;
    store_.codecs.lend()->decode_unidentified(location.record, key ? open_sealed(*key, object, where) : object.stored,
                                              plain, where);
    return plain;
  }

  bool is_whole(const ChunkList& list, const std::string& what) const {
    if (!std::ranges::all_of(list.items, [&](const ChunkItem& item) { return is_whole(item.id); })) return false;
    if (list.level == 0) return true;
    Bytes bytes;
    return std::ranges::all_of(list.items, [&](const ChunkItem& item) {
      store_.read_part(item.id, bytes);
      return is_whole(decode_page(bytes, item, what), what);
    });
  }
  bool is_whole(const Digest& chunk) const {
    const ObjectKey key = store_.key_of(ObjectKind::kChunk, chunk);
    return index_.find(key) && !damaged_.contains(key);
  }

  const StoreState& store_;
  const Index& index_;
  const KeyRing* ring_;
  std::unordered_set<ObjectKey, ObjectKeyHash> damaged_;
  std::set<std::pair<Digest, Digest>> damaged_lists_;  // by pack
};

// Checks every chunk list of the store, a bounded number at a time.
void check_lists(const StoreState& store, const Index& index, const KeyRing* ring, FsckReport& report,
                 std::vector<std::string>& unread, Progress& progress) {
  const ListCheck check(store, index, ring, report);
  std::vector<Location> lists;
  const auto check_those = [&] {
    std::vector<ListCheck::Finding> found(lists.size());
    store.pool.run(static_cast<std::int64_t>(lists.size()), [&](std::int64_t i) {
      found[static_cast<std::size_t>(i)] = check.check(lists[static_cast<std::size_t>(i)]);
      progress.advance(1);
    });
    for (std::size_t i = 0; i < lists.size(); ++i) {
      if (!found[i].unread.empty()) unread.push_back(found[i].unread);
      if (found[i].problem.empty()) continue;
      report.problems.push_back(found[i].problem);
      report.damaged_packs.push_back(index.pack_id(lists[i].pack));
      report.damaged_objects.push_back({report.damaged_packs.back(), ObjectKind::kChunkList, lists[i].record.key.id});
    }
    lists.clear();
  };
  for (std::size_t pack = 0; pack < index.pack_count(); ++pack) {
    try {
      const PackIndex records(index.pack_path(pack), index.pack_id(pack));
      for (std::uint64_t i = 0; i < records.table().size(); ++i) {
        const PackRecord record = records.table().at(i);
        if (record.key.kind == ObjectKind::kChunkList) lists.push_back({record, static_cast<std::uint32_t>(pack)});
        if (lists.size() == kListsAtOnce) check_those();
      }
    } catch (const Error& error) {
      // The damage is reported already, or a gc has removed the pack.
      if (error.kind != ErrorKind::kCorrupt && error.kind != ErrorKind::kNotFound) throw;
    }
  }
  check_those();
}

// Reports what could not be verified because the disk failed or memory was short. Without any damage to report, the
// check has failed.
void add_unread(const std::vector<std::string>& unread, FsckReport& report) {
  if (unread.empty()) return;
  if (report.problems.empty()) {
    throw Error(ErrorKind::kIo, fmt::format("not everything could be verified: {}", unread.front()),
                "nothing is known to be damaged: try again with more memory, or see to the disk");
  }
  for (const std::string& what : unread) report.problems.push_back("not verified: " + what);
}

// nullptr if the keys are not unlocked: checksums are still verified.
std::shared_ptr<const KeyRing> unlocked_ring(const StoreState& store) {
  try {
    return store.ring();
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kRefused) throw;
    return nullptr;
  }
}

}  // namespace

FsckReport check_store(const StoreState& store, Progress& progress) {
  std::shared_ptr<const Index> index = store.index();
  std::shared_ptr<const KeyRing> ring = unlocked_ring(store);
  std::vector<PackCheck> results(index->pack_count());
  progress.begin("Checking packs", results.size(), "packs");
  store.pool.run(static_cast<std::int64_t>(results.size()), [&](std::int64_t pack) {
    auto i = static_cast<std::size_t>(pack);
    auto codec = store.codecs.lend();
    results[i] = check_pack(index->pack_path(i), index->pack_id(i), *codec.get(), store.read_base(), ring.get(),
                            progress.interruption());
    progress.advance(1);
  });
  progress.end();
  FsckReport report;
  std::uint64_t lists = 0;
  std::vector<std::string> unread;
  for (std::size_t pack = 0; pack < results.size(); ++pack) {
    const PackCheck& result = results[pack];
    if (result.gone) continue;
    report.packs += 1;
    report.objects += result.objects;
    report.bytes += result.bytes;
    report.locked += result.locked;
    report.problems.insert(report.problems.end(), result.problems.begin(), result.problems.end());
    unread.insert(unread.end(), result.unread.begin(), result.unread.end());
    if (!result.problems.empty()) report.damaged_packs.push_back(index->pack_id(pack));
    for (const ObjectKey& key : result.damaged)
      report.damaged_objects.push_back({index->pack_id(pack), key.kind, key.id});
    lists += result.lists;
  }
  progress.begin("Checking files", lists, "files");
  check_lists(store, *index, ring.get(), report, unread, progress);
  progress.end();
  std::ranges::sort(report.damaged_packs);
  report.damaged_packs.erase(std::unique(report.damaged_packs.begin(), report.damaged_packs.end()),
                             report.damaged_packs.end());
  for (const DamagedObject& object : report.damaged_objects) report.damaged.push_back(object.id);
  std::ranges::sort(report.damaged);
  report.damaged.erase(std::unique(report.damaged.begin(), report.damaged.end()), report.damaged.end());
  if (std::string problem = layout_problem(store.folder); !problem.empty())
    report.problems.push_back(std::move(problem));
  for (std::string& problem : verify_multi_index(store.packs_folder, progress.interruption())) {
    report.problems.push_back(std::move(problem));
    report.multi_damaged = true;
  }
  add_unread(unread, report);
  return report;
}

}  // namespace mlx::store
