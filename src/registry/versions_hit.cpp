// From damaged objects to the files of versions: every list of files that is here is read once, by all cores.
#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "registry/artifacts.h"
#include "registry/bring.h"
#include "registry/domains.h"
#include "registry/fsck.h"
#include "registry/lost.h"

namespace mlx::registry {
namespace {

using store::ObjectKind;

constexpr const char* kMissing = "missing";

struct Named {
  std::string name;
  Digest manifest;
  bool own = false;  // made by this clone: all of it was here once
};

std::vector<Named> named_manifests(Repository& repository) {
  std::vector<Named> named;
  const std::set<std::string>& own = repository.own_actors();
  const Losses lost = lost_versions(repository);
  for (const Version& version : versions(repository))
    named.push_back({version.name(), version.digest, own.contains(version.actor) && !lost.contains(version.digest)});
  store::Statement select = repository.db().prepare("SELECT run, step, manifest FROM checkpoints ORDER BY run, step");
  while (select.step()) {
    named.push_back({fmt::format("run:{} checkpoint {}", select.text(0), select.int64(1)), select.digest(2)});
  }
  std::erase_if(named, [&](const Named& one) {
    if (erasure_of(repository, one.manifest)) return true;
    return !one.own && !repository.store().has(ObjectKind::kManifest, one.manifest);
  });
  return named;
}

struct Search {
  const store::Store& store;
  bool lazy;                                       // what is not here is fetched when it is needed
  std::unordered_set<Digest, DigestHash> damaged;  // storage ids
  std::mutex mutex;
  std::unordered_map<Digest, std::string, DigestHash> verdicts;

  bool lost(ObjectKind kind, const Digest& id) const;
  std::string examine(const Digest& content) const;
  std::string verdict(const Digest& content);
  std::vector<Hit> bad_files(const Digest& shard);
};

// Damaged, and whole nowhere else. Of a chunk list its content is what tells.
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

// Why a file's content cannot be read; "" where it can. (A chunk is read only where fsck found damage in it.)
std::string Search::examine(const Digest& content) const {
  if (!store.has_blob(content)) return lost(ObjectKind::kChunk, content) ? "damaged" : lazy ? "" : kMissing;
  std::string why;
  try {
    store.visit_reachable_blob(content, [&](ObjectKind kind, const Digest& part) {
      if (why.empty() && lost(kind, part)) why = "damaged";
      if (why.empty() && !lazy && !store.has(kind, part)) why = fmt::format("{} in part", kMissing);
    });
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kCorrupt && error.kind != ErrorKind::kNotFound) throw;
    return "damaged";
  }
  return why;
}

std::string Search::verdict(const Digest& content) {
  {
    std::lock_guard guard(mutex);
    if (const auto at = verdicts.find(content); at != verdicts.end()) return at->second;
  }
  std::string why = examine(content);
  std::lock_guard guard(mutex);
  return verdicts.emplace(content, std::move(why)).first->second;
}

std::vector<Hit> Search::bad_files(const Digest& shard) {
  std::vector<Hit> hits;
  try {
    for (const store::Entry& entry : store::decode_shard(store.read(ObjectKind::kShard, shard))) {
      if (std::string why = verdict(entry.content); !why.empty())
        hits.push_back({{}, {}, entry.path, entry.content, why});
    }
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kCorrupt && error.kind != ErrorKind::kNotFound) throw;
    hits.push_back({{}, {}, {}, {}, error.message});
  }
  return hits;
}

}  // namespace

std::vector<Hit> versions_hit(Repository& repository, const store::FsckReport& report, Progress& progress) {
  const std::vector<Named> named = named_manifests(repository);
  repository.store().reload();  // others have made versions since it was opened
  const store::Store& store = repository.store();
  Search search{store, is_lazy(repository), {}, {}, {}};
  for (const store::DamagedObject& object : report.damaged_objects) search.damaged.insert(object.id);
  std::vector<Hit> hits;
  std::vector<std::vector<Digest>> shards_of(named.size());
  std::vector<Digest> shards;
  for (std::size_t i = 0; i < named.size(); ++i) {
    try {
      for (const store::ShardRef& shard : store.shards(named[i].manifest)) shards_of[i].push_back(shard.id);
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kCorrupt && error.kind != ErrorKind::kNotFound) throw;
      const bool gone = error.kind == ErrorKind::kNotFound;
      hits.push_back({named[i].name, named[i].manifest, {}, {}, gone ? "its list of files is missing" : error.message});
    }
    shards.insert(shards.end(), shards_of[i].begin(), shards_of[i].end());
  }
  std::ranges::sort(shards);
  shards.erase(std::unique(shards.begin(), shards.end()), shards.end());

  std::vector<std::vector<Hit>> bad(shards.size());
  progress.begin("Checking versions", shards.size(), "lists");
  repository.pool().run(static_cast<std::int64_t>(shards.size()), [&](std::int64_t i) {
    check_interrupted();
    bad[static_cast<std::size_t>(i)] = search.bad_files(shards[static_cast<std::size_t>(i)]);
    progress.advance(1);
  });
  progress.end();
  for (std::size_t i = 0; i < named.size(); ++i) {
    for (const Digest& shard : shards_of[i]) {
      const auto at = std::ranges::lower_bound(shards, shard) - shards.begin();
      for (Hit hit : bad[static_cast<std::size_t>(at)]) {
        if (!named[i].own && hit.why.starts_with(kMissing)) continue;  // it may never have been fetched
        hit.name = named[i].name;
        hit.manifest = named[i].manifest;
        hits.push_back(std::move(hit));
      }
    }
  }
  return hits;
}

}  // namespace mlx::registry
