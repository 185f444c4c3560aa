// rebuild_database: meta.db from operations alone, wherever they still are (journal, packs, the old database). The
// answer of `mlx fsck --rebuild`.
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

// nullopt where the file is missing or can not be trusted; a newer schema and a busy database are errors.
std::unique_ptr<store::Database> open_healthy(const std::string& mlx_folder, store::Disk& disk) {
  const std::string path = join_path(mlx_folder, "meta.db");
  if (!path_exists(path)) return nullptr;
  try {
    auto db = std::make_unique<store::Database>(path, store::Database::Open::kReadWrite);
    store::Statement check = db->prepare("PRAGMA integrity_check(1)");
    if (!check.step() || check.text(0) != "ok") return nullptr;
    check.reset();
    db->migrate(kMigrations);
    note_whether_history_lost(*db, mlx_folder, disk);  // an empty file is a healthy database
    visit_operations(*db, [](const Operation&) {});
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
  progress.warn(
      fmt::format("{} was damaged or held operations that cannot be applied; it was moved to {}", path, aside));
}

// What cannot be taken in: unreadable, or with an ancestor that is nowhere. In packs it is lost to nobody, and fsck
// names it: neither a newer mlx nor a person has to look for it in a journal that was set aside.
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

// Adds the journal's operations. False where it is damaged; before its last record nothing of it is used then.
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
    return whole == journal_size(path) || journal_differs(db, path);  // else no crash has torn its end
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kCorrupt) throw;
    progress.warn(error.message);
    return false;
  }
}

// Operations in packs were verified when they came in; one that can not be read is left to fsck's report of the packs.
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

// Those with an ancestor that is nowhere cannot be applied; they are named and left out.
void take_out_incomplete(OperationStage& found, LeftOut& left_out, Progress& progress) {
  found.take_out_incomplete([&](const Operation& operation) {
    progress.warn(
        fmt::format("operation {} ({}): one before it is missing: left out", operation.id.brief(), operation.kind));
    left_out.add(encode(operation));
  });
}

// Of a history that was lost: what packs have brought goes on from there. Where they had nothing that was not known,
// it goes on with what is left, and stays one that is not known as a whole. Where nothing is left and a remote is
// named, what that has comes first: two beginnings cannot be told to be one history.
void settle_lost(store::Database& db, const std::string& root, std::uint64_t before_packs, std::uint64_t found,
                 bool left_out, Progress& progress) {
  if (!is_history_lost(db)) return;
  if (found > before_packs) return note_history_found(db);
  if (found == 0 && (left_out || !remotes(root).empty())) return;
  if (!is_history_given_up(db))
    progress.warn(found == 0
                      ? "no operation is left anywhere: the history begins anew, and `mlx gc` keeps what is stored"
                      : "what was recorded last is lost: the history continues with what the journal still has, "
                        "and `mlx gc` keeps what is stored");
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
