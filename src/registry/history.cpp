// Keeps journal, operations table and projection in step.
#include "registry/history.h"

#include <sys/stat.h>

#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "base/path.h"
#include "registry/ancestry.h"
#include "registry/metric_series.h"
#include "registry/repository.h"
#include "registry/undo.h"

namespace mlx::registry {
namespace {

const std::vector<const char*> kProjected = {
    "operations",      "operation_parents", "heads",         "undone",  "people",           "artifacts", "versions",
    "version_numbers", "aliases",           "alias_moves",   "tags",    "attachments",      "runs",      "run_inputs",
    "run_outputs",     "checkpoints",       "metric_series", "metrics", "artifact_domains", "erasures",  "erased_keys",
    "version_makers",  "erased_makers",     "forgotten",     "remarks"};

bool any_pack(const std::string& mlx_folder) {
  const std::string packs = join_path(mlx_folder, "packs");
  return is_folder(packs) &&
         std::ranges::any_of(list_folder(packs), [](const std::string& name) { return name.ends_with(".pack"); });
}

struct LiveSeries {
  std::string run;
  std::vector<MetricPoint> points;
};

std::vector<std::string> running_runs(store::Database& db) {
  std::vector<std::string> runs;
  store::Statement select = db.prepare("SELECT id FROM runs WHERE status = 'running'");
  while (select.step()) runs.push_back(select.text(0));
  return runs;
}

std::vector<LiveSeries> live_metrics(store::Database& db) {
  std::vector<LiveSeries> live;
  for (const std::string& run : running_runs(db)) live.push_back({run, select_points(db, run)});
  return live;
}

void restore_live_metrics(store::Database& db, const std::vector<LiveSeries>& live) {
  const std::vector<std::string> running = running_runs(db);
  for (const LiveSeries& series : live) {
    if (std::ranges::find(running, series.run) == running.end()) continue;
    delete_points(db, series.run);
    insert_points(db, series.run, series.points);
  }
}

// True where every one of `ordered` descends from every head, so that the fixed order puts all of them last. Enough to
// ask of those whose parents are all recorded: a head descends from no recorded operation but itself.
bool extends_heads(store::Database& db, const std::vector<Operation>& ordered) {
  const std::vector<Digest> heads = select_heads(db);
  std::unordered_set<Digest, DigestHash> arriving;
  for (const Operation& operation : ordered) {
    const bool first = std::ranges::none_of(operation.parents, [&](const Digest& p) { return arriving.contains(p); });
    if (first && !std::ranges::includes(operation.parents, heads)) return false;
    arriving.insert(operation.id);
  }
  return true;
}

// It changes what earlier operations did, so that everything is applied again.
bool is_undo(const Operation& operation) {
  return operation.kind == "operation.undo";
}

void require_parents(store::Database& db, const std::vector<Operation>& operations) {
  std::unordered_set<Digest, DigestHash> arriving;
  for (const Operation& operation : operations) arriving.insert(operation.id);
  for (const Operation& operation : operations) {
    for (const Digest& parent : operation.parents) {
      if (!arriving.contains(parent) && !is_recorded(db, parent)) {
        fail(ErrorKind::kCorrupt, "operation {}: its parent {} is missing", operation.id.brief(), parent.brief());
      }
    }
  }
}

}  // namespace

const std::vector<const char*>& projected_tables() {
  return kProjected;
}

std::string journal_path(const std::string& mlx_folder) {
  return join_path(mlx_folder, "journal");
}

std::uint64_t journal_size(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? static_cast<std::uint64_t>(info.st_size) : 0;
}

store::Database open_metadata(const std::string& mlx_folder) {
  store::Database db(join_path(mlx_folder, "meta.db"), store::Database::Open::kCreate);
  const bool fresh = db.schema_version() == 0;
  db.migrate(kMigrations);
  if (fresh && journal_size(journal_path(mlx_folder)) == 0 && any_pack(mlx_folder))
    db.run("INSERT OR REPLACE INTO meta (key, value) VALUES ('history_lost', 1)");
  return db;
}

bool is_history_lost(store::Database& db) {
  return db.prepare("SELECT 1 FROM meta WHERE key = 'history_lost'").step();
}

void note_history_found(store::Database& db) {
  db.run("DELETE FROM meta WHERE key = 'history_lost'");
}

std::vector<Digest> select_heads(store::Database& db) {
  std::vector<Digest> heads;
  store::Statement select = db.prepare("SELECT id FROM heads ORDER BY id");
  while (select.step()) heads.push_back(select.digest(0));
  return heads;
}

bool is_recorded(store::Database& db, const Digest& id) {
  return db.prepare("SELECT 1 FROM operations WHERE id = ?").bind(id).step();
}

std::vector<Digest> select_parents(store::Database& db, const Digest& id) {
  std::vector<Digest> parents;
  store::Statement select = db.prepare("SELECT parent FROM operation_parents WHERE child = ?");
  for (select.bind(id); select.step();) parents.push_back(select.digest(0));
  return parents;
}

std::vector<Operation> select_operations(store::Database& db) {
  std::vector<Operation> operations;
  store::Statement select = db.prepare("SELECT id, bytes FROM operations ORDER BY seq");
  while (select.step()) {
    operations.push_back(decode(select.blob(1)));
    if (operations.back().id != select.digest(0)) {
      throw Error(ErrorKind::kCorrupt, fmt::format("meta.db: operation {} was changed", select.digest(0).brief()),
                  "run `mlx fsck --rebuild`");
    }
  }
  return operations;
}

bool journal_differs(store::Database& db, const std::string& path) {
  store::Statement select = db.prepare("SELECT value FROM meta WHERE key = 'journal_bytes'");
  return !select.step() || static_cast<std::uint64_t>(select.int64(0)) != journal_size(path);
}

void note_journal_size(store::Database& db, const std::string& path) {
  db.prepare("INSERT OR REPLACE INTO meta (key, value) VALUES ('journal_bytes', ?)").bind(journal_size(path)).run();
}

void adopt(store::Database& db, const store::Store& store, std::vector<Operation> unknown) {
  NoProgress quiet;
  adopt(db, store, std::move(unknown), quiet);
}

void adopt(store::Database& db, const store::Store& store, std::vector<Operation> unknown, Progress& progress) {
  require_parents(db, unknown);
  unknown = fixed_order(std::move(unknown));
  if (extends_heads(db, unknown) && std::ranges::none_of(unknown, is_undo)) {
    Ancestry ancestry(db);
    for (const Operation& operation : unknown) {
      progress.advance(1);
      apply(db, store, operation, ancestry);
    }
    return;
  }
  std::vector<Operation> all = select_operations(db);
  all.insert(all.end(), std::make_move_iterator(unknown.begin()), std::make_move_iterator(unknown.end()));
  rebuild_projection(db, store, fixed_order(std::move(all)), progress);
}

void rebuild_projection(store::Database& db, const store::Store& store, const std::vector<Operation>& ordered,
                        Progress& progress) {
  const std::vector<LiveSeries> live = live_metrics(db);
  for (const char* table : kProjected) db.run(fmt::format("DELETE FROM {}", table));
  const OperationSet undone = undone_operations(ordered);
  progress.begin("apply", ordered.size(), "operations");
  Ancestry ancestry(db);
  for (const Operation& operation : ordered) {
    apply(db, store, operation, ancestry, undone.contains(operation.id));
    progress.advance(1);
  }
  restore_live_metrics(db, live);
  progress.end();
}

bool is_outdated(store::Database& db) {
  return db.prepare("SELECT 1 FROM meta WHERE key = 'outdated'").step();
}

void project_anew_where_outdated(store::Database& db, const store::Store& store) {
  if (!is_outdated(db)) return;
  NoProgress quiet;
  rebuild_projection(db, store, fixed_order(select_operations(db)), quiet);
  db.run("DELETE FROM meta WHERE key = 'outdated'");
}

void catch_up(store::Database& db, const store::Store& store, store::Disk& disk, const std::string& mlx_folder) {
  const std::string path = journal_path(mlx_folder);
  if (!journal_differs(db, path)) return;
  store::Journal journal(path, disk);
  std::vector<Operation> unknown;
  std::unordered_set<Digest, DigestHash> in_journal;
  journal.visit([&](const Digest& id, ByteView bytes) {
    if (in_journal.insert(id).second && !is_recorded(db, id)) unknown.push_back(decode(bytes));
  });
  adopt(db, store, std::move(unknown));
  if (!db.writable()) return note_journal_size(db, path);  // the journal cannot be written either
  std::vector<Bytes> lost;
  for (const Operation& operation : select_operations(db)) {
    if (!in_journal.contains(operation.id) && !store.has(store::ObjectKind::kOperation, operation.id)) {
      lost.push_back(encode(operation));
    }
  }
  journal.append_all(lost);  // also where there are none: the size that is noted is that of a whole journal
  note_journal_size(db, path);
}

}  // namespace mlx::registry
