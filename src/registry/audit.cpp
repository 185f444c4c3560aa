// The checks of audit.h, one function each; a check adds what it finds and the next one goes on with what is whole.
#include "registry/audit.h"

#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "registry/history.h"
#include "registry/repository.h"

namespace mlx::registry {
namespace {

using DigestSet = std::unordered_set<Digest, DigestHash>;

constexpr std::size_t kMostProblems = 1000;

class Audit {
 public:
  Audit(const std::string& root, store::Disk& disk, Pool& pool, const store::StoreOptions& options)
      : folder_(join_path(root, ".mlx")),
        store_(folder_, disk, pool, options),
        disk_(disk),
        db_(join_path(folder_, "meta.db"), store::Database::Open::kReadWrite) {}

  AuditReport run(Progress& progress) {
    db_.migrate(kMigrations);
    // A private copy is looked into in the same way: the list of unsealed runs below is a table.
    db_.writable() ? look(progress) : db_.change_privately([&] { look(progress); });
    return std::move(report_);
  }

 private:
  void look(Progress& progress) {
    store::Transaction transaction(db_);  // nobody records meanwhile; rolled back
    store_.reload();                      // what was recorded until now is in packs by now
    read_rows();
    check_order();
    check_graph();
    const DigestSet journal = read_journal();
    read_packs(journal);
    check_projection(progress);
  }

  template <typename... Args>
  void problem(fmt::format_string<Args...> format, Args&&... args) {
    if (report_.problems.size() < kMostProblems)
      report_.problems.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  // Each row by itself: its bytes give its id, and its columns say what the bytes say.
  void read_rows() {
    store::Statement select = db_.prepare("SELECT seq, id, kind, actor, time, bytes FROM operations ORDER BY seq");
    while (select.step()) {
      const std::string row = fmt::format("meta.db: operations: row {}", select.int64(0));
      try {
        Operation operation = decode(select.blob(5));
        if (operation.id != select.digest(1)) {
          problem("{} ({}): its bytes were altered: they give {}", row, select.digest(1).brief(), operation.id.brief());
          continue;
        }
        if (operation.kind != select.text(2) || operation.actor != select.text(3) ||
            operation.time != select.int64(4)) {
          problem("{} ({}): kind, actor or time were altered", row, operation.id.brief());
        }
        known_.insert(operation.id);
        report_.operations.push_back(std::move(operation));
      } catch (const Error& error) {
        problem("{}: was altered: {}", row, error.message);
      }
    }
  }

  void check_order() {
    const std::vector<Operation> ordered = fixed_order(report_.operations);
    for (std::size_t i = 0; i < ordered.size(); ++i) {
      if (i < report_.operations.size() && ordered[i].id == report_.operations[i].id) continue;
      problem("meta.db: operations: {} stands where {} belongs: rows were reordered", report_.operations[i].id.brief(),
              ordered[i].id.brief());
      return;
    }
  }

  void check_graph() {
    DigestSet parents;
    for (const Operation& operation : report_.operations) {
      for (const Digest& parent : operation.parents) {
        parents.insert(parent);
        if (!known_.contains(parent))
          problem("meta.db: operations: {} was removed: {} comes after it", parent.brief(), operation.id.brief());
      }
    }
    for (const Operation& operation : report_.operations) {
      if (!parents.contains(operation.id)) report_.heads.push_back(operation.id);
    }
    std::ranges::sort(report_.heads);
  }

  // What a crash left at the journal's end is applied by the next command: no problem. Everything else is to be in
  // meta.db too.
  DigestSet read_journal() {
    const std::string path = journal_path(folder_);
    DigestSet journal;
    std::vector<Operation> absent;
    try {
      const std::uint64_t size = journal_size(path);  // before it is read: others may append
      const bool was_whole = !journal_differs(db_, path);
      const std::uint64_t whole = store::Journal(path, disk_).visit([&](const Digest& id, ByteView bytes) {
        const Operation operation = decode(bytes);
        for (const Digest& parent : operation.parents) {
          if (journal.contains(parent) || store_.has(store::ObjectKind::kOperation, parent)) continue;
          problem("journal: {} stands before its parent {}, or that was removed", id.brief(), parent.brief());
        }
        journal.insert(id);
        if (!known_.contains(id)) absent.push_back(operation);
      });
      if (was_whole && whole < size)
        problem("journal: offset {}: its last operations were altered since they were written", whole);
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kCorrupt) throw;
      problem("journal: {}", error.message);
    }
    store::Statement noted = db_.prepare("SELECT value FROM meta WHERE key = 'journal_bytes'");
    const std::uint64_t agreed = noted.step() ? static_cast<std::uint64_t>(noted.int64(0)) : 0;
    if (journal_size(path) < agreed) problem("journal: is shorter than when it was last written: its end was cut off");
    if (journal_size(path) > agreed) {
      std::erase_if(absent, [&](const Operation& operation) { return extends_known(operation, absent); });
    }
    for (const Operation& operation : absent)
      problem("meta.db: operations: {} ({}) was removed: the journal has it", operation.id.brief(), operation.kind);
    return journal;
  }

  // Written to the journal after the database last agreed with it: nothing in the database descends from it.
  bool extends_known(const Operation& operation, const std::vector<Operation>& absent) const {
    const auto is_there = [&](const Digest& id) {
      return known_.contains(id) || std::ranges::any_of(absent, [&](const Operation& other) { return other.id == id; });
    };
    return std::ranges::all_of(operation.parents, is_there) &&
           std::ranges::none_of(report_.operations, [&](const Operation& later) {
             return std::ranges::find(later.parents, operation.id) != later.parents.end();
           });
  }

  void read_packs(const DigestSet& journal) {
    DigestSet packed;
    for (const Digest& id : store_.operations()) {
      packed.insert(id);
      try {
        (void)decode(store_.read(store::ObjectKind::kOperation, id));
      } catch (const Error& error) {
        if (error.kind != ErrorKind::kCorrupt) throw;
        problem("packs: operation {}: {}", id.brief(), error.message);
        continue;
      }
      if (!known_.contains(id) && !journal.contains(id))
        problem("meta.db: operations: {} was removed: a pack has it", id.brief());
    }
    for (const Operation& operation : report_.operations) {
      if (!journal.contains(operation.id) && !packed.contains(operation.id))
        problem("journal: operation {} ({}) was removed: meta.db has it", operation.id.brief(), operation.kind);
    }
  }

  // Only where the operations are whole: from others, other tables follow.
  void check_projection(Progress& progress) {
    if (!report_.problems.empty()) return;
    note_unsealed();
    const TempFolder temporary;
    const std::string path = join_path(temporary.path(), "meta.db");
    {
      store::Database fresh(path, store::Database::Open::kCreate);
      fresh.run("PRAGMA synchronous = OFF");
      fresh.migrate(kMigrations);
      store::Transaction transaction(fresh);
      rebuild_projection(fresh, store_, fixed_order(report_.operations), progress);
      transaction.commit();
    }
    compare_with(path);
  }

  void note_unsealed();
  void compare_with(const std::string& path);
  void compare(const std::string& what, const std::string& ours, const std::string& fresh);
  void compare_table(const std::string& table);
  void compare_metrics();
  void compare_schema();

  std::string folder_;
  store::Store store_;
  store::Disk& disk_;
  store::Database db_;
  DigestSet known_;
  AuditReport report_;
};

void Audit::compare_with(const std::string& path) {
  std::string quoted;
  for (const char c : path) quoted += c == '\'' ? std::string("''") : std::string(1, c);
  db_.run(fmt::format("ATTACH '{}' AS fresh", quoted));
  compare_schema();
  for (const std::string table : projected_tables()) {
    if (table != "metrics" && table != "metric_series") compare_table(table);
  }
  compare_metrics();
}

// Both are queries that give one text a row.
void Audit::compare(const std::string& what, const std::string& ours, const std::string& fresh) {
  constexpr std::size_t kShown = 200;
  store::Statement wrong = db_.prepare(fmt::format("{} EXCEPT {}", ours, fresh));
  while (wrong.step())
    problem("meta.db: {}: {}: does not follow from the operations", what, wrong.text(0).substr(0, kShown));
  store::Statement absent = db_.prepare(fmt::format("{} EXCEPT {}", fresh, ours));
  while (absent.step()) problem("meta.db: {}: {}: is missing", what, absent.text(0).substr(0, kShown));
  store::Statement count = db_.prepare(fmt::format("SELECT count(*) FROM ({})", ours));
  if (count.step()) report_.rows += static_cast<std::uint64_t>(count.int64(0));
}

// A row's text: artifact='clf' digest=X'01…'
void Audit::compare_table(const std::string& table) {
  std::string row;
  store::Statement columns = db_.prepare(fmt::format("SELECT name FROM pragma_table_info('{}') ORDER BY cid", table));
  while (columns.step())
    row += fmt::format("{}{}=' || quote({})", row.empty() ? "'" : " || ' ", columns.text(0), columns.text(0));
  const auto rows_of = [&](const char* schema) { return fmt::format("SELECT {} FROM {}.{}", row, schema, table); };
  compare(table, rows_of("main"), rows_of("fresh"));
}

// A run that goes on has metrics that stand in no operation yet, and those of a run whose sealed series is not in this
// store can not be compared; where that came after the operation there are no rows, and the series is read instead.
// Asked before the projection is made: a series may come in while it is.
void Audit::note_unsealed() {
  db_.run("CREATE TEMP TABLE unsealed (run TEXT PRIMARY KEY)");
  store::Statement runs = db_.prepare("SELECT id, status, metrics FROM main.runs");
  store::Statement insert = db_.prepare("INSERT INTO temp.unsealed (run) VALUES (?)");
  store::Statement any =
      db_.prepare("SELECT 1 FROM main.metrics m JOIN main.metric_series s ON s.id = m.series WHERE s.run = ? LIMIT 1");
  while (runs.step()) {
    const bool sealed = runs.null(2) || store_.has_blob(runs.digest(2));
    const bool rows = any.bind(runs.text(0)).step();
    any.reset();
    if (runs.text(1) == "running" || !sealed || !rows) insert.bind(runs.text(0)).run();
  }
}

// Ids of series are this database's own affair.
void Audit::compare_metrics() {
  const auto rows_of = [](const char* schema) {
    return fmt::format(
        "SELECT 'run=' || quote(s.run) || ' name=' || quote(s.name) || ' step=' || m.step || ' value=' || "
        "quote(m.value) || ' time=' || m.time FROM {0}.metrics m JOIN {0}.metric_series s ON s.id = m.series "
        "WHERE s.run NOT IN (SELECT run FROM temp.unsealed)",
        schema);
  };
  compare("metrics", rows_of("main"), rows_of("fresh"));
}

// A trigger or a view would change what tables say without changing a row.
void Audit::compare_schema() {
  const auto rows_of = [](const char* schema) {
    return fmt::format(
        "SELECT type || ' ' || name || ': ' || coalesce(sql, '') FROM {}.sqlite_master WHERE name NOT LIKE 'sqlite%'",
        schema);
  };
  compare("schema", rows_of("main"), rows_of("fresh"));
}

}  // namespace

AuditReport verify_history(const std::string& root, store::Disk& disk, Pool& pool, Progress& progress,
                           const store::StoreOptions& options) {
  return Audit(root, disk, pool, options).run(progress);
}

}  // namespace mlx::registry
