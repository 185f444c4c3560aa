// Keeps journal, operations table and projection in step.
#include "registry/operations/history.h"
#include "registry/operations/schema.h"

#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <unordered_set>

#include "base/error.h"
#include "base/path.h"
#include "registry/operations/ancestry.h"
#include "registry/operations/apply.h"
#include "registry/operations/metric_series.h"
#include "registry/operations/undone.h"

namespace mlx::registry {
namespace {

const std::vector<const char*> kProjected = {"operations",
                                             "operation_parents",
                                             "heads",
                                             "undone",
                                             "people",
                                             "artifacts",
                                             "versions",
                                             "version_numbers",
                                             "aliases",
                                             "alias_moves",
                                             "tags",
                                             "attachments",
                                             "runs",
                                             "run_inputs",
                                             "run_outputs",
                                             "checkpoints",
                                             "metric_series",
                                             "metrics",
                                             "artifact_domains",
                                             "erasures",
                                             "erased_keys",
                                             "version_makers",
                                             "erased_makers",
                                             "forgotten",
                                             "remarks",
                                             "run_logs",
                                             "api_keys",
                                             "revoked_api_keys"};

bool any_pack(const std::string& mlx_folder) {
  const std::string packs = join_path(mlx_folder, "packs");
  return is_folder(packs) &&
         std::ranges::any_of(list_folder(packs), [](const std::string& name) { return name.ends_with(".pack"); });
}

// True if the journal may hold everything that was ever recorded here, as far as it can tell.
bool holds_all_written(const std::string& mlx_folder, store::Disk& disk) {
  const std::string path = journal_path(mlx_folder);
  const std::uint64_t size = journal_size(path);  // before reading: others may append
  std::uint64_t operations = 0;
  try {
    const std::uint64_t whole = store::Journal(path, disk).visit([&](const Digest&, ByteView) { ++operations; });
    return whole >= size && (operations > 0 || !any_pack(mlx_folder));
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kCorrupt) throw;
    return false;
  }
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

// True if all of `unknown` descend from every head, so that the fixed order puts them last. It is enough to check those
// whose parents are all recorded: a head descends from no recorded operation but itself.
bool extends_heads(store::Database& db, OperationStage& unknown) {
  const std::vector<Digest> heads = select_heads(db);
  bool extends = true;
  unknown.visit([&](const Operation& operation) {
    const bool first = std::ranges::none_of(operation.parents, [&](const Digest& p) { return unknown.has(p); });
    if (first && !std::ranges::includes(operation.parents, heads)) extends = false;
  });
  return extends;
}

void require_parents(store::Database& db, OperationStage& operations) {
  operations.visit_missing([&](const Digest& parent, const Digest& child) {
    if (!is_recorded(db, parent))
      fail(ErrorKind::kCorrupt, "operation {}: its parent {} is missing", child.brief(), parent.brief());
  });
}

// Applies the operations of the database and those that `add` adds, from the first one on. An undo changes the effect
// of earlier operations, and diverged operations belong among them.
void apply_all_again(store::Database& db, const store::Store& store, const Kinds& kinds,
                     const std::function<void(OperationStage&)>& add, Progress& progress) {
  OperationStage all;
  visit_operations(db, [&](const Operation& operation) { all.add(operation); });
  add(all);
  all.settle();
  rebuild_projection(db, store, kinds, all, progress);
}

// Appends what the journal lost, in small batches, because each batch is synced.
void append_lost(store::Database& db, const store::Store& store, store::Journal& journal, DigestTable& in_journal) {
  constexpr std::size_t kBatch = 1 << 20;
  std::vector<Bytes> lost;
  std::size_t size = 0;
  journal.append_all({});  // cuts off a torn end, so that the recorded size is that of a whole journal
  visit_operations(db, [&](const Operation& operation) {
    if (in_journal.contains(operation.id) || store.has(store::ObjectKind::kOperation, operation.id)) return;
    lost.push_back(encode(operation));
    size += lost.back().size();
    if (size < kBatch) return;
    journal.append_all(lost);
    lost.clear();
    size = 0;
  });
  if (!lost.empty()) journal.append_all(lost);
}

void require_unchanged(const Digest& recorded, const Digest& found) {
  if (recorded == found) return;
  throw Error(ErrorKind::kCorrupt, fmt::format("meta.db: operation {} was changed", recorded.brief()),
              "run `mlx fsck --rebuild`");
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

store::Database open_metadata(const std::string& mlx_folder, store::Disk& disk) {
  store::Database db(join_path(mlx_folder, "meta.db"), store::Database::Open::kCreate);
  db.migrate(kMigrations);
  note_whether_history_lost(db, mlx_folder, disk);
  return db;
}

// Judged once, and never for a database that has agreed with its journal: it knows which torn end a crash has left.
void note_whether_history_lost(store::Database& db, const std::string& mlx_folder, store::Disk& disk) {
  if (!db.writable() || db.prepare("SELECT 1 FROM meta WHERE key IN ('journal_judged', 'journal_bytes')").step())
    return;
  const bool lost = !holds_all_written(mlx_folder, disk);
  store::Transaction transaction(db);
  if (lost) db.run("INSERT OR IGNORE INTO meta (key, value) VALUES ('history_lost', 1)");
  db.run("INSERT OR REPLACE INTO meta (key, value) VALUES ('journal_judged', 1)");
  transaction.commit();
}

bool is_history_lost(store::Database& db) {
  return db.prepare("SELECT 1 FROM meta WHERE key = 'history_lost'").step();
}

void note_history_found(store::Database& db) {
  db.run("DELETE FROM meta WHERE key = 'history_lost'");
}

void give_up_history(store::Database& db) {
  db.run("UPDATE meta SET value = 2 WHERE key = 'history_lost'");
}

bool is_history_given_up(store::Database& db) {
  return db.prepare("SELECT 1 FROM meta WHERE key = 'history_lost' AND value = 2").step();
}

std::vector<Operation> unrecorded_in_packs(store::Database& db, const store::Store& store, OperationStage& arriving) {
  std::unordered_set<Digest, DigestHash> found_before;
  const auto is_known = [&](const Digest& id) {
    return found_before.contains(id) || arriving.has(id) || is_recorded(db, id);
  };
  std::vector<Operation> found;
  for (const Digest& id : store.operations()) {
    if (is_known(id)) continue;
    try {
      found.push_back(decode(store.read(store::ObjectKind::kOperation, id)));
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kCorrupt) throw;  // fsck reports it
    }
  }
  std::vector<Operation> whole;
  for (Operation& operation : fixed_order(std::move(found))) {
    if (!std::ranges::all_of(operation.parents, is_known)) continue;
    found_before.insert(operation.id);
    whole.push_back(std::move(operation));
  }
  return whole;
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

std::optional<std::int64_t> place_of(store::Database& db, const Digest& id) {
  store::Statement select = db.prepare("SELECT seq FROM operations WHERE id = ?");
  return select.bind(id).step() ? std::optional(select.int64(0)) : std::nullopt;
}

// From the last place to the first, so that each is visited once: parents come before their children.
std::vector<bool> places_before(store::Database& db, std::vector<std::int64_t> of, std::int64_t from) {
  std::erase_if(of, [&](std::int64_t place) { return place < from; });
  if (of.empty()) return {};
  const std::int64_t last = std::ranges::max(of);
  std::vector<bool> before(static_cast<std::size_t>(last) + 1, false);
  for (const std::int64_t place : of) before[static_cast<std::size_t>(place)] = true;
  store::Statement links = db.prepare(
      "SELECT c.seq, p.seq FROM operations c CROSS JOIN operation_parents e ON e.child = c.id CROSS JOIN operations p"
      " ON p.id = e.parent WHERE c.seq BETWEEN ? AND ? ORDER BY c.seq DESC");
  for (links.bind(from, last); links.step();) {
    const std::int64_t parent = links.int64(1);
    if (parent >= from && parent < last && before[static_cast<std::size_t>(links.int64(0))])
      before[static_cast<std::size_t>(parent)] = true;
  }
  return before;
}

std::vector<Digest> recorded_operations(store::Database& db) {
  std::vector<Digest> ids;
  store::Statement select = db.prepare("SELECT id FROM operations");
  while (select.step()) ids.push_back(select.digest(0));
  return ids;
}

std::vector<Digest> select_parents(store::Database& db, const Digest& id) {
  std::vector<Digest> parents;
  store::Statement select = db.prepare("SELECT parent FROM operation_parents WHERE child = ?");
  for (select.bind(id); select.step();) parents.push_back(select.digest(0));
  return parents;
}

void visit_operations(store::Database& db, const OperationStage::Visit& visit) {
  visit_operations_where(
      db, [](std::int64_t) { return true; }, visit);
}

void visit_operations_where(store::Database& db, const std::function<bool(std::int64_t)>& wanted,
                            const OperationStage::Visit& visit) {
  store::Statement select = db.prepare("SELECT id, bytes, seq FROM operations ORDER BY seq");
  while (select.step()) {
    if (!wanted(select.int64(2))) continue;
    const Operation operation = decode(select.blob(1));
    require_unchanged(select.digest(0), operation.id);
    visit(operation);
  }
}

void visit_encoded(store::Database& db,
                   const std::function<void(const Digest& id, const std::string& kind, ByteView bytes)>& visit) {
  store::Statement select = db.prepare("SELECT id, kind, bytes FROM operations ORDER BY seq");
  while (select.step()) {
    const Bytes bytes = select.blob(2);
    const Digest id = select.digest(0);
    require_unchanged(id, Digest::of(bytes));
    visit(id, select.text(1), bytes);
  }
}

std::vector<Operation> select_operations(store::Database& db) {
  std::vector<Operation> operations;
  visit_operations(db, [&](const Operation& operation) { operations.push_back(operation); });
  return operations;
}

void visit_operations_of(store::Database& db, const std::string& kind, const OperationStage::Visit& visit) {
  store::Statement select = db.prepare("SELECT bytes FROM operations WHERE kind = ? ORDER BY seq");
  for (select.bind(kind); select.step();) visit(decode(select.blob(0)));
}

void visit_operations_naming(store::Database& db, const Kinds& kinds, Role role, const OperationStage::Visit& visit) {
  for (const Kind* const kind : kinds.rows()) {
    if (kind->content.has(role)) visit_operations_of(db, std::string(kind->name), visit);
  }
}

bool journal_differs(store::Database& db, const std::string& path) {
  store::Statement select = db.prepare("SELECT value FROM meta WHERE key = 'journal_bytes'");
  return !select.step() || static_cast<std::uint64_t>(select.int64(0)) != journal_size(path);
}

void note_journal_size(store::Database& db, const std::string& path) {
  db.prepare("INSERT OR REPLACE INTO meta (key, value) VALUES ('journal_bytes', ?)").bind(journal_size(path)).run();
}

void adopt(store::Database& db, const store::Store& store, const Kinds& kinds, const Operation& newest) {
  CHECK(std::ranges::includes(newest.parents, select_heads(db)));
  Ancestry ancestry(db);
  if (!taken_back_by(kinds, newest)) return apply(db, store, kinds, newest, ancestry);
  NoProgress quiet(store.interruption());
  apply_all_again(
      db, store, kinds, [&](OperationStage& all) { all.add(newest); }, quiet);
}

void adopt(store::Database& db, const store::Store& store, const Kinds& kinds, OperationStage& unknown,
           Progress& progress) {
  require_parents(db, unknown);
  if (extends_heads(db, unknown) && !holds_undo(kinds, unknown)) {
    Ancestry ancestry(db);
    return unknown.visit([&](const Operation& operation) {
      progress.check_interrupted();
      progress.advance(1);
      apply(db, store, kinds, operation, ancestry);
    });
  }
  const auto add_unknown = [&](OperationStage& all) {
    unknown.visit([&](const Operation& operation) { all.add(operation); });
  };
  apply_all_again(db, store, kinds, add_unknown, progress);
}

void rebuild_projection(store::Database& db, const store::Store& store, const Kinds& kinds, OperationStage& all,
                        Progress& progress) {
  const std::vector<LiveSeries> live = live_metrics(db);
  for (const char* table : kProjected) db.run(fmt::format("DELETE FROM {}", table));
  const OperationSet undone = undone_operations(kinds, all);
  progress.begin("apply", all.size(), "operations");
  Ancestry ancestry(db);
  all.visit([&](const Operation& operation) {
    progress.check_interrupted();
    apply(db, store, kinds, operation, ancestry, undone.contains(operation.id));
    progress.advance(1);
  });
  restore_live_metrics(db, live);
  progress.end();
}

bool is_outdated(store::Database& db) {
  return db.prepare("SELECT 1 FROM meta WHERE key = 'outdated'").step();
}

void project_anew_where_outdated(store::Database& db, const store::Store& store, const Kinds& kinds) {
  if (!is_outdated(db)) return;
  NoProgress quiet(store.interruption());
  apply_all_again(
      db, store, kinds, [](OperationStage&) {}, quiet);
  db.run("DELETE FROM meta WHERE key = 'outdated'");
}

void catch_up(store::Database& db, const store::Store& store, const Kinds& kinds, store::Disk& disk,
              const std::string& mlx_folder) {
  const std::string path = journal_path(mlx_folder);
  if (!journal_differs(db, path)) return;
  store::Journal journal(path, disk);
  OperationStage unknown;
  DigestTable in_journal;
  journal.visit([&](const Digest& id, ByteView bytes) {
    if (in_journal.insert(id) && !is_recorded(db, id)) unknown.add(decode(bytes));
  });
  unknown.settle();
  NoProgress quiet(store.interruption());
  adopt(db, store, kinds, unknown, quiet);
  if (db.writable()) append_lost(db, store, journal, in_journal);  // if it cannot be written, neither can the journal
  note_journal_size(db, path);
}

}  // namespace mlx::registry
