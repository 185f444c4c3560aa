// rebuild_database: meta.db from operations alone, wherever they still are (journal, packs, the old database). The
// answer of `mlx fsck --rebuild`.
#include <unordered_map>

#include "base/error.h"
#include "base/path.h"
#include "registry/history.h"
#include "registry/repository.h"
#include "registry/sync.h"

namespace mlx::registry {
namespace {

using Found = std::unordered_map<Digest, Operation, DigestHash>;

// nullopt where the file is missing or can not be trusted; a newer schema and a busy database are errors.
std::unique_ptr<store::Database> open_healthy(const std::string& path) {
  if (!path_exists(path)) return nullptr;
  try {
    auto db = std::make_unique<store::Database>(path, store::Database::Open::kReadWrite);
    store::Statement check = db->prepare("PRAGMA integrity_check(1)");
    if (!check.step() || check.text(0) != "ok") return nullptr;
    check.reset();
    db->migrate(kMigrations);
    for (const Operation& operation : select_operations(*db)) (void)operation;
    return db;
  } catch (const Error& error) {
    if (error.kind == ErrorKind::kCorrupt) return nullptr;
    throw;
  }
}

// meta.db → meta.db.damaged-1, with what SQLite keeps beside it.
void set_aside(const std::string& path, store::Disk& disk, Progress& progress) {
  if (!path_exists(path)) return;
  int n = 1;
  while (path_exists(fmt::format("{}.damaged-{}", path, n))) ++n;
  const std::string aside = fmt::format("{}.damaged-{}", path, n);
  disk.rename(path, aside);
  for (const char* suffix : {"-wal", "-shm"}) {
    if (path_exists(path + suffix)) disk.rename(path + suffix, aside + suffix);
  }
  disk.sync_folder(parent_path(path));
  progress.warn(fmt::format("{} was damaged or held what cannot be taken in, and now stands at {}", path, aside));
}

// What cannot be taken in, as bytes: unreadable, or with an ancestor that is nowhere.
using LeftOut = std::vector<Bytes>;

// Adds the journal's operations. False where it is damaged; before its last record nothing of it is used then.
bool collect_journal(store::Database& db, const std::string& path, store::Disk& disk, Found& found, LeftOut& left_out,
                     Progress& progress) {
  try {
    const std::uint64_t whole = store::Journal(path, disk).visit([&](const Digest& id, ByteView bytes) {
      try {
        found.emplace(id, decode(bytes));
      } catch (const Error& error) {
        if (error.kind != ErrorKind::kCorrupt) throw;
        left_out.emplace_back(bytes.begin(), bytes.end());
        progress.warn(fmt::format("{}: left out", error.message));
      }
    });
    return whole == journal_size(path) || journal_differs(db, path);  // else no crash has torn its end
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kCorrupt) throw;
    progress.warn(error.message);
    return false;
  }
}

// Operations in packs were verified when they came in; one that can not be read is left to fsck's report of the packs.
void collect_packs(const store::Store& store, Found& found, Progress& progress) {
  for (const Digest& id : store.operations()) {
    if (found.contains(id)) continue;
    try {
      found.emplace(id, decode(store.read(store::ObjectKind::kOperation, id)));
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kCorrupt) throw;
      progress.warn(error.message);
    }
  }
}

// In the fixed order. Those with an ancestor that is nowhere can not be applied; they are named and left out.
std::vector<Operation> with_whole_ancestry(Found&& found, LeftOut& left_out, Progress& progress) {
  std::vector<Operation> all;
  for (auto& [id, operation] : found) all.push_back(std::move(operation));
  std::vector<Operation> whole;
  Found known;
  for (Operation& operation : fixed_order(std::move(all))) {
    bool complete = true;
    for (const Digest& parent : operation.parents) complete = complete && known.contains(parent);
    if (!complete) {
      progress.warn(
          fmt::format("operation {} ({}): one before it is missing: left out", operation.id.brief(), operation.kind));
      left_out.push_back(encode(operation));
      continue;
    }
    known.emplace(operation.id, Operation{});
    whole.push_back(std::move(operation));
  }
  return whole;
}

// In packs they are lost to nobody, and fsck names them: neither a newer mlx nor a person has to look for them in a
// journal that was set aside.
void keep_left_out(store::Store& store, const LeftOut& left_out) {
  if (left_out.empty()) return;
  const auto batch = store.begin();
  for (const Bytes& operation : left_out) batch->add(store::ObjectKind::kOperation, operation);
  batch->commit();
}

}  // namespace

void rebuild_database(const std::string& root, store::Disk& disk, Pool& pool, Progress& progress,
                      const store::StoreOptions& options) {
  const std::string folder = join_path(root, ".mlx"), path = join_path(folder, "meta.db");
  const std::string journal = journal_path(folder);
  store::Store store(folder, disk, pool, options);
  std::unique_ptr<store::Database> db = open_healthy(path);
  if (!db) {
    set_aside(path, disk, progress);
    db = std::make_unique<store::Database>(open_metadata(folder));
  }
  store::Transaction transaction(*db);
  Found found;
  LeftOut left_out;
  for (Operation& operation : select_operations(*db)) found.emplace(operation.id, std::move(operation));
  const bool journal_whole = collect_journal(*db, journal, disk, found, left_out, progress);
  collect_packs(store, found, progress);
  const std::vector<Operation> all = with_whole_ancestry(std::move(found), left_out, progress);
  rebuild_projection(*db, store, all, progress);
  keep_left_out(store, left_out);
  if (!journal_whole || !left_out.empty()) set_aside(journal, disk, progress);
  if (!all.empty()) note_history_found(*db);
  // Where a remote is named, what it has comes first: two beginnings cannot be told to be one history.
  if (all.empty() && left_out.empty() && is_history_lost(*db) && remotes(root).empty()) {
    give_up_history(*db);
    progress.warn("no operation is left anywhere: the history begins anew, and `mlx gc` keeps what is stored");
  }
  db->run("DELETE FROM meta WHERE key = 'journal_bytes'");
  catch_up(*db, store, disk, folder);
  transaction.commit();
}

}  // namespace mlx::registry
