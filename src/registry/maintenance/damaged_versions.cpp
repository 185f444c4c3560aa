// Maps damaged objects to the files of versions. Every file list in the store is read once, on all cores.
#include "registry/maintenance/damaged_versions.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "registry/operations/operation_stage.h"
#include "registry/record/lost.h"
#include "registry/sync/fetch_on_demand.h"
#include "registry/versions/artifacts.h"
#include "registry/versions/domains.h"

namespace mlx::registry {
namespace {

using store::ObjectKind;

enum class Damage { kNone, kDamaged, kMissing, kMissingInPart };
const char* text_of(Damage damage) {
  constexpr const char* kTexts[] = {"", "damaged", "missing", "missing in part"};
  return kTexts[static_cast<std::size_t>(damage)];
}

struct Named {
  std::string name;
  Digest manifest;
  bool own = false;  // made by this clone: all of it was here once
};

// Visits each version and checkpoint that should be complete here, in a fixed order.
void visit_named(Repository& repository, const std::function<void(const Named&)>& visit) {
  const auto take = [&](const Named& named) {
    if (erasure_of(repository, named.manifest)) return;
    if (named.own || repository.store().has(ObjectKind::kManifest, named.manifest)) visit(named);
  };
  const std::set<std::string>& own = repository.own_actors();
  const Losses lost = lost_versions(repository);
  visit_versions(repository, [&](const Version& version) {
    take({version.name(), version.digest, own.contains(version.actor) && !lost.contains(version.digest)});
  });
  store::Statement select = repository.db().prepare("SELECT run, step, manifest FROM checkpoints ORDER BY run, step");
  while (select.step()) take({fmt::format("run:{} checkpoint {}", select.text(0), select.int64(1)), select.digest(2)});
}

struct Search {
  const store::Store& store;
  bool lazy;                                       // missing content is fetched on demand
  std::unordered_set<Digest, DigestHash> damaged;  // storage ids
  std::mutex mutex;
  std::unordered_set<Digest, DigestHash> whole = {};  // checked lately: versions share most of their files
  std::unordered_map<Digest, Damage, DigestHash> bad = {};

  bool lost(ObjectKind kind, const Digest& id) const;
  Damage examine(const Digest& content) const;
  Damage verdict(const Digest& content);
  std::vector<DamagedFile> bad_files(const Digest& shard);
};

// True if the object is damaged and has no intact copy. A chunk list is judged by its content.
bool Search::lost(ObjectKind kind, const Digest& id) const {
  if (damaged.empty()) return false;
  const std::vector<Digest> ids = store.storage_ids(id);
  if (std::ranges::none_of(ids, [&](const Digest& one) { return damaged.contains(one); })) return false;
  if (kind == ObjectKind::kChunkList) return true;
  try {
    (void)store.read(kind, id);
    return false;
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kCorrupt && error.kind != ErrorKind::kNotFound) throw;
    return true;
  }
}

// Why a file's content cannot be read. A chunk is read only if fsck found damage in it.
Damage Search::examine(const Digest& content) const {
  if (!store.has_blob(content))
    return lost(ObjectKind::kChunk, content) ? Damage::kDamaged : lazy ? Damage::kNone : Damage::kMissing;
  Damage found = Damage::kNone;
  try {
    store.visit_reachable_blob(content, [&](ObjectKind kind, const Digest& part) {
      if (found != Damage::kNone) return;
      if (lost(kind, part))
        found = Damage::kDamaged;
      else if (!lazy && !store.has(kind, part))
        found = Damage::kMissingInPart;
    });
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kCorrupt && error.kind != ErrorKind::kNotFound) throw;
    return Damage::kDamaged;
  }
  return found;
}

Damage Search::verdict(const Digest& content) {
  constexpr std::size_t kMostWhole = 1 << 16;
  {
    std::lock_guard guard(mutex);
    if (whole.contains(content)) return Damage::kNone;
    if (const auto at = bad.find(content); at != bad.end()) return at->second;
  }
  const Damage found = examine(content);
  std::lock_guard guard(mutex);
  if (found != Damage::kNone) return bad.emplace(content, found).first->second;
  if (whole.size() == kMostWhole) whole.clear();
  whole.insert(content);
  return Damage::kNone;
}

std::vector<DamagedFile> Search::bad_files(const Digest& shard) {
  std::vector<DamagedFile> hits;
  try {
    for (const store::Entry& entry : store::decode_shard(store.read(ObjectKind::kShard, shard))) {
      const Damage damage = verdict(entry.content);
      if (damage == Damage::kNone) continue;
      hits.push_back({{}, {}, entry.path, entry.content, text_of(damage), damage != Damage::kDamaged});
    }
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kCorrupt && error.kind != ErrorKind::kNotFound) throw;
    hits.push_back({{}, {}, {}, {}, error.message});
  }
  return hits;
}

// Which file lists belong to which versions, kept on disk: there are at least as many as versions.
class Lists {
 public:
  void add(const Named& named) { add_named_.bind(++rows_, named.name, named.manifest, named.own).run(); }
  // Adds a list to the version that was added last.
  void add_list(const Digest& shard, std::size_t position) {
    add_list_.bind(shard, rows_, static_cast<std::int64_t>(position)).run();
  }

  std::uint64_t count() {
    store::Statement select = db_.prepare("SELECT count(DISTINCT shard) FROM lists");
    return select.step() ? static_cast<std::uint64_t>(select.int64(0)) : 0;
  }
  // Visits each list once, in batches, lists of the oldest versions first.
  void visit(const std::function<void(const std::vector<Digest>&)>& visit) {
    constexpr std::size_t kAtOnce = 1024;
    std::vector<Digest> shards;
    store::Statement select = db_.prepare(
        "SELECT l.shard FROM named n JOIN lists l ON l.named = n.row WHERE l.named = (SELECT min(named) FROM lists"
        " WHERE shard = l.shard) ORDER BY n.row, l.position");
    while (select.step()) {
      shards.push_back(select.digest(0));
      if (shards.size() == kAtOnce) visit(std::exchange(shards, {}));
    }
    if (!shards.empty()) visit(shards);
  }
  void visit_versions_of(const Digest& shard,
                         const std::function<void(std::int64_t row, std::int64_t position, const Named&)>& visit) {
    store::Statement select = db_.prepare(
        "SELECT n.row, l.position, n.name, n.manifest, n.own FROM lists l JOIN named n ON n.row = l.named"
        " WHERE l.shard = ?");
    for (select.bind(shard); select.step();)
      visit(select.int64(0), select.int64(1), {select.text(2), select.digest(3), select.int64(4) != 0});
  }

 private:
  store::Database db_ = scratch_database(
      "CREATE TABLE named (row INTEGER PRIMARY KEY, name TEXT NOT NULL, manifest BLOB NOT NULL, own INTEGER NOT NULL);"
      "CREATE TABLE lists (shard BLOB NOT NULL, named INTEGER NOT NULL, position INTEGER NOT NULL,"
      " PRIMARY KEY (shard, named, position)) WITHOUT ROWID;"
      "CREATE INDEX lists_by_version ON lists (named, position);"
      "BEGIN;");
  store::Statement add_named_ = db_.prepare("INSERT INTO named (row, name, manifest, own) VALUES (?, ?, ?, ?)");
  store::Statement add_list_ = db_.prepare("INSERT INTO lists (shard, named, position) VALUES (?, ?, ?)");
  std::int64_t rows_ = 0;
};

// One file, and one version that has it.
struct Placed {
  std::int64_t row, position;
  DamagedFile hit;
};

}  // namespace

std::vector<DamagedFile> damaged_versions(Repository& repository, const store::FsckReport& report, Progress& progress) {
  repository.store().reload();  // others have made versions since the store was opened
  const store::Store& store = repository.store();
  Search search{store, is_lazy(repository), {}, {}};
  for (const store::DamagedObject& object : report.damaged_objects) search.damaged.insert(object.id);
  std::vector<DamagedFile> hits;
  Lists lists;
  visit_named(repository, [&](const Named& named) {
    try {
      const std::vector<store::ShardRef> shards = store.shards(named.manifest);
      lists.add(named);
      for (std::size_t i = 0; i < shards.size(); ++i) lists.add_list(shards[i].id, i);
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kCorrupt && error.kind != ErrorKind::kNotFound) throw;
      const bool gone = error.kind == ErrorKind::kNotFound;
      hits.push_back({named.name, named.manifest, {}, {}, gone ? "its list of files is missing" : error.message});
    }
  });

  std::vector<Placed> placed;
  progress.begin("Checking versions", lists.count(), "lists");
  lists.visit([&](const std::vector<Digest>& shards) {
    std::vector<std::vector<DamagedFile>> bad(shards.size());
    repository.pool().run(static_cast<std::int64_t>(shards.size()), [&](std::int64_t i) {
      progress.check_interrupted();
      bad[static_cast<std::size_t>(i)] = search.bad_files(shards[static_cast<std::size_t>(i)]);
      progress.advance(1);
    });
    for (std::size_t i = 0; i < shards.size(); ++i) {
      if (bad[i].empty()) continue;
      lists.visit_versions_of(shards[i], [&](std::int64_t row, std::int64_t position, const Named& named) {
        for (DamagedFile hit : bad[i]) {
          if (!named.own && hit.missing) continue;  // it may never have been fetched
          hit.name = named.name;
          hit.manifest = named.manifest;
          placed.push_back({row, position, std::move(hit)});
        }
      });
    }
  });
  progress.end();
  std::ranges::stable_sort(placed, {}, [](const Placed& one) { return std::pair(one.row, one.position); });
  for (Placed& one : placed) hits.push_back(std::move(one.hit));
  return hits;
}

}  // namespace mlx::registry
