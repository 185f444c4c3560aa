// Rebuilds meta.db from operations, wherever they still are: in the journal, in packs, or in the old database. Used by
// `mlx fsck --rebuild`.
#include "registry/maintenance/rebuild.h"

#include <memory>

#include "base/error.h"
#include "base/path.h"
#include "registry/operations/history.h"
#include "registry/operations/schema.h"
#include "registry/settings/remotes.h"
#include "store/pack/usage.h"

namespace mlx::registry {
namespace {

// nullopt if the file is missing or cannot be trusted. A newer schema and a busy database are errors.
std::unique_ptr<store::Database> open_healthy(const std::string& mlx_folder, store::Disk& disk) {
  const std::string path = join_path(mlx_folder, "meta.db");
  if (!path_exists(path)) return nullptr;
  try {
    auto db = std::make_unique<store::Database>(path, store::Database::Open::kReadWrite);
    store::Statement check = db->prepare("PRAGMA integrity_check(1)");
    if (!check.step() || check.text(0) != "ok") return nullptr;
    check.reset();
    db->migrate(kMigrations);
    note_whether_history_lost(*db, mlx_folder, disk);  // an empty file is a valid database
    visit_operations(*db, [](const Operation&) {});
    return db;
  } catch (const Error& error) {
    if (error.kind == ErrorKind::kCorrupt) return nullptr;
    throw;
  }
}

// Renames meta.db to meta.db.damaged-1, and the files that SQLite keeps beside it.
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
  progress.warn(
      fmt::format("{} was damaged or held operations that cannot be applied; it was moved to {}", path, aside));
}

// Operations that cannot be applied: unreadable, or with a missing ancestor. They are kept in packs, where fsck names
// them, so that neither a newer mlx nor a person has to search the journal that was set aside.
class LeftOut {
 public:
  explicit LeftOut(store::Store& store) : store_(store) {}
  void add(ByteView operation) {
    if (!batch_) batch_ = store_.begin();
    batch_->add(store::ObjectKind::kOperation, operation);
  }
  bool any() const { return batch_ != nullptr; }
  void keep() {
    if (batch_) batch_->commit();
  }

 private:
  store::Store& store_;
  std::unique_ptr<store::Batch> batch_;
};

// Adds the journal's operations. False if the journal is damaged; if the damage is before its last record, none are
// used.
bool collect_journal(store::Database& db, const std::string& path, store::Disk& disk, OperationStage& found,
                     LeftOut& left_out, Progress& progress) {
  try {
    const std::uint64_t whole = store::Journal(path, disk).visit([&](const Digest&, ByteView bytes) {
      Operation operation;
      try {
        operation = decode(bytes);
      } catch (const Error& error) {
        if (error.kind != ErrorKind::kCorrupt) throw;
        left_out.add(bytes);
        progress.warn(fmt::format("{}: left out", error.message));
        return;
      }
      found.add(operation);
    });
    return whole == journal_size(path) || journal_differs(db, path);  // else not the torn end of a crash
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kCorrupt) throw;
    progress.warn(error.message);
    return false;
  }
}

// Operations in packs were verified when they arrived. An unreadable one is left to fsck's report on the packs.
void collect_packs(const store::Store& store, OperationStage& found, Progress& progress) {
  DigestTable packed;
  store::visit_operations(store, [&](const Digest& id) { packed.insert(id); });
  packed.visit([&](const Digest& id) {
    if (found.has(id)) return;
    try {
      found.add(decode(store.read(store::ObjectKind::kOperation, id)));
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kCorrupt) throw;
      progress.warn(error.message);
    }
  });
}

// Operations with a missing ancestor cannot be applied; names them and leaves them out.
void take_out_incomplete(OperationStage& found, LeftOut& left_out, Progress& progress) {
  found.take_out_incomplete([&](const Operation& operation) {
    progress.warn(
        fmt::format("operation {} ({}): an ancestor is missing: left out", operation.id.brief(), operation.kind));
    left_out.add(encode(operation));
  });
}

// Decides how a lost history continues. If packs had operations that were not known otherwise, the history is found. If
// not, it continues with what is left, and stays marked as incomplete. If nothing is left and a remote is declared, the
// remote's history must come first, because two separate beginnings cannot be recognised as one history.
void settle_lost(store::Database& db, const std::string& root, std::uint64_t before_packs, std::uint64_t found,
                 bool left_out, Progress& progress) {
  if (!is_history_lost(db)) return;
  if (found > before_packs) return note_history_found(db);
  if (found == 0 && (left_out || !remotes(root).empty())) return;
  if (!is_history_given_up(db))
    progress.warn(found == 0
                      ? "no operation is left anywhere: the history starts anew, and `mlx gc` keeps all stored content"
                      : "what was recorded last is lost: the history continues with what the journal still has, "
                        "and `mlx gc` keeps all stored content");
  give_up_history(db);
}

}  // namespace

void rebuild_database(const std::string& root, store::Disk& disk, Pool& pool, Progress& progress,
                      const store::StoreOptions& options, const Kinds& kinds) {
  const std::string folder = join_path(root, ".mlx"), path = join_path(folder, "meta.db");
  const std::string journal = journal_path(folder);
  store::Store store(folder, disk, pool, options);
  std::unique_ptr<store::Database> db = open_healthy(folder, disk);
  if (!db) {
    set_aside(path, disk, progress);
    db = std::make_unique<store::Database>(open_metadata(folder, disk));
  }
  store::Transaction transaction(*db);
  OperationStage found;
  LeftOut left_out(store);
  visit_operations(*db, [&](const Operation& operation) { found.add(operation); });
  const bool journal_whole = collect_journal(*db, journal, disk, found, left_out, progress);
  const std::uint64_t before_packs = found.size();
  collect_packs(store, found, progress);
  take_out_incomplete(found, left_out, progress);
  found.settle();
  rebuild_projection(*db, store, kinds, found, progress);
  left_out.keep();
  if (!journal_whole || left_out.any()) set_aside(journal, disk, progress);
  settle_lost(*db, root, before_packs, found.size(), left_out.any(), progress);
  db->run("DELETE FROM meta WHERE key = 'journal_bytes'");
  catch_up(*db, store, kinds, disk, folder);
  transaction.commit();
}

}  // namespace mlx::registry
