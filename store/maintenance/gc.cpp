// gc in outline: mark; decide pack by pack; copy live objects out of packs with much garbage; then, under the lock,
// read pins and references again and remove the packs as one step.
//
// A writer that finds an object that names others (a list, a manifest) relies on it being complete. So everything that
// stays keeps what it names: packs that stay for other reasons than references count as references, and a pack with a
// dead object of that kind is always rewritten.
#include "store/maintenance/gc.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <functional>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/path.h"
#include "store/maintenance/marks.h"
#include "store/pack/pack_writer.h"

namespace mlx::store {

namespace {

// A pack is rewritten if at least this share of it is garbage: at a quarter, it copies at most three times what it
// frees.
constexpr std::uint64_t kGarbageShare = 4;

enum class Fate { kStay, kRewrite, kRemove };

struct PackPlan {
  Fate fate = Fate::kStay;
  std::uint64_t file_bytes = 0;
  std::uint64_t live = 0, live_bytes = 0;  // objects
  std::uint64_t dead = 0, dead_bytes = 0;
};

struct Gc {
  StoreState& store;
  const std::function<GcRoots()>& roots;
  const GcOptions& options;
  Progress& progress;
  GcReport report;
  std::shared_ptr<const Index> picture;
  Marks marks;
  std::vector<PackPlan> plans;

  Gc(StoreState& the_store, const std::function<GcRoots()>& the_roots, const GcOptions& the_options,
     Progress& the_progress)
      : store(the_store),
        roots(the_roots),
        options(the_options),
        progress(the_progress),
        picture(the_store.index()),
        marks(the_store, picture),
        plans(picture->pack_count()) {}

  void mark_roots();
  void mark_what_stays();
  void weigh(std::size_t pack);
  void plan();
  void mark_what_is_locked();
  void tell();
  std::vector<Digest> leaving() const;
  void rewrite();
  void rewrite_or_keep();
  void keep(std::size_t pack);
  bool keep_what_came_to_life();
  void merge_indexes();
  void write_index_of_rest();
  bool is_needed(std::size_t pack, const std::vector<std::size_t>& by);
  std::optional<std::size_t> not_needed_of(std::vector<std::size_t> going);
  void remove_leaving();
  void remove();
};

std::uint64_t size_of_entry(const PackRecord& record) {
  return kEntryHeaderSize + record.extra_size + record.stored_size + kRecordSize;
}

void Gc::mark_roots() {
  GcRoots now = roots();
  for (const Digest& id : now.manifests) marks.add_manifest(id);
  for (const Digest& id : now.blobs) marks.add_blob(id);
  for (const Digest& id : now.operations) marks.add_operation(id);
  if (now.all_operations) {
    picture->visit([&](const Location& location) {
      if (location.record.key.kind == ObjectKind::kOperation) marks.add_key(location.record.key);
    });
  }
  if (store.encrypted) mark_what_is_locked();
  marks.follow(progress);
}

// Without a key, garbage cannot be told from live objects.
void Gc::mark_what_is_locked() {
  std::shared_ptr<const KeyRing> ring = store.ring();
  picture->visit([&](const Location& location) {
    const PackRecord& record = location.record;
    if (record.key_id != 0 && !ring->find(record.key_id)) marks.add_key(record.key);
  });
}

// Young packs, and those that others rely on.
void Gc::mark_what_stays() {
  PinnedPacks pinned = read_pins(store.packs_folder);
  std::int64_t now = std::time(nullptr);
  for (std::size_t pack = 0; pack < plans.size(); ++pack) {
    struct stat status {};
    std::string path = picture->pack_path(pack);
    if (::stat(path.c_str(), &status) != 0) fail_errno(errno, path, "stat");
    PackPlan& plan = plans[pack];
    plan.file_bytes = static_cast<std::uint64_t>(status.st_size);
    report.objects += marks.pack(pack).table().size();
    report.bytes += plan.file_bytes;
    bool young = options.grace_seconds > 0 && now - status.st_mtim.tv_sec < options.grace_seconds;
    bool busy = pinned.contains(picture->pack_id(pack));
    if (young) {
      report.young_packs += 1;
      report.young_bytes += plan.file_bytes;
    } else if (busy) {
      report.pinned_packs += 1;
      report.pinned_bytes += plan.file_bytes;
    }
    if (young || busy) marks.add_pack(pack);
  }
  report.packs = plans.size();
}

void Gc::weigh(std::size_t pack) {
  PackPlan& plan = plans[pack];
  const RecordTable& table = marks.pack(pack).table();
  bool dead_name = false;
  for (std::uint64_t i = 0; i < table.size(); ++i) {
    PackRecord record = table.at(i);
    if (marks.marked(pack, i)) {
      plan.live += 1;
      plan.live_bytes += size_of_entry(record);
    } else {
      plan.dead += 1;
      plan.dead_bytes += size_of_entry(record);
      dead_name = dead_name || Marks::names_others(record);
    }
  }
  if (plan.dead == 0) return;
  if (plan.live == 0) {
    plan.fate = Fate::kRemove;
  } else if (options.thorough || dead_name || plan.dead_bytes >= plan.file_bytes / kGarbageShare) {
    plan.fate = Fate::kRewrite;
  }
}

void Gc::plan() {
  mark_what_stays();
  mark_roots();
  store.pool.run(static_cast<std::int64_t>(plans.size()), [&](std::int64_t i) { weigh(static_cast<std::size_t>(i)); });
}

// The plan in numbers.
void Gc::tell() {
  for (const PackPlan& plan : plans) {
    if (plan.fate == Fate::kStay) {
      report.left_bytes += plan.dead_bytes;
      continue;
    }
    report.removed_objects += plan.dead;
    if (plan.fate == Fate::kRemove) {
      report.removed_packs += 1;
      report.freed_bytes += plan.file_bytes;
    } else {
      report.rewritten_packs += 1;
      report.freed_bytes += plan.dead_bytes;
    }
  }
}

std::vector<Digest> Gc::leaving() const {
  std::vector<Digest> packs;
  for (std::size_t pack = 0; pack < plans.size(); ++pack) {
    if (plans[pack].fate != Fate::kStay) packs.push_back(picture->pack_id(pack));
  }
  return packs;
}

// Copies live objects out of the packs that will be removed. The originals stay until then, so neither order nor being
// killed matters.
void Gc::rewrite() {
  std::uint64_t total = 0;
  for (const PackPlan& plan : plans) total += plan.fate == Fate::kRewrite ? plan.live_bytes : 0;
  if (total == 0) return;
  progress.begin("Rewriting packs", total, "B");
  TemporaryFiles temporaries(store.packs_folder, store.disk);
  std::unique_ptr<PackWriter> writer;
  auto publish = [&] {
    if (!writer) return;
    std::string temporary = writer->path();
    Digest id = writer->seal();
    verify_pack(temporary, id);
    store.disk.rename(temporary, join_path(store.packs_folder, id.hex() + ".pack"));
    temporaries.published(temporary);
    writer.reset();
    // A killed gc has left this copy; it is kept.
    for (std::size_t pack = 0; pack < plans.size(); ++pack) {
      if (picture->pack_id(pack) == id) plans[pack] = {.file_bytes = plans[pack].file_bytes};
    }
  };
  for (std::size_t pack = 0; pack < plans.size(); ++pack) {
    if (plans[pack].fate != Fate::kRewrite) continue;
    const RecordTable& table = marks.pack(pack).table();
    std::vector<PackRecord> live;
    for (std::uint64_t i = 0; i < table.size(); ++i) {
      if (marks.marked(pack, i)) live.push_back(table.at(i));
    }
    std::ranges::sort(live, {}, &PackRecord::offset);
    for (const PackRecord& record : live) {
      progress.check_interrupted();
      if (!writer) writer = std::make_unique<PackWriter>(temporaries.next(), store.disk);
      writer->append(picture->read_object({record, static_cast<std::uint32_t>(pack)}));
      progress.advance(size_of_entry(record));
      if (writer->size() >= store.options.pack_size) publish();
    }
  }
  publish();
  store.disk.sync_folder(store.packs_folder);
  temporaries.release();
  progress.end();
}

// If there is no room for copies, packs without live objects can still be removed.
void Gc::rewrite_or_keep() {
  try {
    rewrite();
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kIo) throw;
    progress.warn(fmt::format("packs with some garbage stay as they are: {}", error.message));
    for (std::size_t pack = 0; pack < plans.size(); ++pack) {
      if (plans[pack].fate != Fate::kRewrite) continue;
      plans[pack] = {.file_bytes = plans[pack].file_bytes};
      marks.add_pack(pack);
    }
    marks.follow(progress);
    while (keep_what_came_to_life()) marks.follow(progress);
  }
}

// Written before the packs are removed, so that readers always have an index. If there is no room for it, they read the
// packs' own indexes.
void Gc::merge_indexes() {
  if (!picture->has_multi()) return;
  try {
    write_index_of_rest();
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kIo) throw;
    log("no index over many packs for now: {}", error.message);
    store.disk.remove(join_path(store.packs_folder, "multi.idx"));
  }
}

void Gc::write_index_of_rest() {
  std::vector<Digest> without = leaving();
  std::shared_ptr<const Index> rest =
      Index::load(store.packs_folder, picture.get(), PackSet(without.begin(), without.end()));
  TemporaryFiles temporaries(store.packs_folder, store.disk);
  std::string temporary = temporaries.next();
  rest->write_multi(temporary, store.disk);
  temporaries.published(temporary);
  temporaries.release();
}

// Keeps a pack that was to be removed, and all that its objects name.
void Gc::keep(std::size_t pack) {
  plans[pack] = {.file_bytes = plans[pack].file_bytes};
  report.pinned_packs += 1;
  report.pinned_bytes += plans[pack].file_bytes;
  marks.add_pack(pack);
}

// Finds packs with more marks than when they were copied. True if there are any.
bool Gc::keep_what_came_to_life() {
  bool any = false;
  for (std::size_t pack = 0; pack < plans.size(); ++pack) {
    if (plans[pack].fate == Fate::kStay) continue;
    std::uint64_t live = 0;
    for (std::uint64_t i = 0; i < marks.pack(pack).table().size(); ++i) live += marks.marked(pack, i) ? 1 : 0;
    if (live == plans[pack].live) continue;
    keep(pack);
    any = true;
  }
  return any;
}

// Whether an object in one of the packs `by` names one that is in `pack` alone. Objects that stay need nothing in
// `pack`, or it would stay.
bool Gc::is_needed(std::size_t pack, const std::vector<std::size_t>& by) {
  Marks theirs = marks.blank();
  for (std::size_t other : by) {
    if (other != pack) theirs.add_pack(other);
  }
  theirs.follow(progress);
  for (std::uint64_t i = 0; i < marks.pack(pack).table().size(); ++i) {
    if (theirs.marked(pack, i) && !marks.marked(pack, i)) return true;
  }
  return false;
}

// Objects name older ones, so it is mostly the youngest pack.
std::optional<std::size_t> Gc::not_needed_of(std::vector<std::size_t> going) {
  std::ranges::sort(going, std::ranges::greater(), [&](std::size_t pack) {
    struct stat status {};
    (void)::stat(picture->pack_path(pack).c_str(), &status);
    return std::pair(status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
  });
  for (std::size_t pack : going) {
    if (!is_needed(pack, going)) return pack;
  }
  return std::nullopt;
}

// Removes all of them as one step. If a full disk has no room to announce that, room is made by removing one pack
// alone, which is one step too, or files that can be made again.
void Gc::remove_leaving() {
  std::vector<std::size_t> going;
  for (std::size_t pack = 0; pack < plans.size(); ++pack) {
    if (plans[pack].fate != Fate::kStay) going.push_back(pack);
  }
  std::vector<std::string> spare = options.spare;
  for (;;) {
    std::vector<Digest> ids;
    ids.reserve(going.size());
    for (std::size_t pack : going) ids.push_back(picture->pack_id(pack));
    try {
      remove_packs(store.packs_folder, ids, store.disk);
      return;
    } catch (const Error& error) {
      // Nothing was removed unless the removal was announced; then whoever takes the lock next finishes it.
      if (error.kind != ErrorKind::kIo || !condemned_packs(store.packs_folder).empty()) throw;
      if (const std::optional<std::size_t> alone = not_needed_of(going)) {
        remove_packs(store.packs_folder, {picture->pack_id(*alone)}, store.disk);
        std::erase(going, *alone);
      } else if (!spare.empty()) {
        for (const std::string& path : spare) store.disk.remove(path);
        spare.clear();
      } else {
        throw;
      }
    }
  }
}

void Gc::remove() {
  RemovalLock lock(store.packs_folder, store.disk, RemovalLock::How::kExclusive);
  // Pins are read before references: a process that has released a pin has recorded its reference by then. Under the
  // lock nobody pins.
  PinnedPacks pinned = read_pins(store.packs_folder);
  std::shared_ptr<const Index> now = Index::load(store.packs_folder, picture.get());
  for (std::size_t pack = 0; pack < now->pack_count(); ++pack) {
    if (!picture->has_pack(now->pack_id(pack))) marks.add_pack_of(*now, pack);
  }
  for (std::size_t pack = 0; pack < plans.size(); ++pack) {
    if (plans[pack].fate != Fate::kStay && pinned.contains(picture->pack_id(pack))) keep(pack);
  }
  mark_roots();
  while (keep_what_came_to_life()) marks.follow(progress);
  progress.begin("Removing packs", 0, "packs");
  remove_leaving();
  progress.end();
}

}  // namespace

GcReport collect_garbage(Store& the_store, const std::function<GcRoots()>& roots, const GcOptions& options,
                         Progress& progress) {
  StoreState& store = StoreAccess::state(the_store);
  Fd running;
  if (options.remove) {
    running = lock_removals(store.packs_folder, store.disk);
    { RemovalLock ends_what_a_crash_left(store.packs_folder, store.disk, RemovalLock::How::kExclusive); }
    remove_stale_temporaries(store.packs_folder, store.index()->temporaries(), store.disk);
  }
  store.reload();
  if (std::vector<std::string> broken = store.index()->broken(); !broken.empty()) {
    throw Error(ErrorKind::kCorrupt, broken.front(), "run `mlx fsck --repair` first");
  }
  if (std::vector<std::string> wrong = verify_multi_index(store.packs_folder, progress.interruption());
      !wrong.empty()) {
    throw Error(ErrorKind::kCorrupt, wrong.front(), "nothing was removed");
  }
  Gc gc(store, roots, options, progress);
  gc.plan();
  if (options.remove && !gc.leaving().empty()) {
    gc.rewrite_or_keep();
    gc.merge_indexes();
    gc.remove();
    store.reload();
  }
  gc.tell();
  return gc.report;
}

}  // namespace mlx::store
