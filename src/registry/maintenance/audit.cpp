// The checks of audit.h, one function each. Each check reports what it finds, and the next one continues with what is
// undamaged.
#include "registry/maintenance/audit.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "registry/maintenance/audit_trust.h"
#include "registry/operations/content.h"
#include "registry/operations/history.h"
#include "registry/operations/operation_stage.h"
#include "registry/operations/run_status.h"
#include "registry/operations/schema.h"
#include "registry/sync/claims.h"
#include "store/pack/usage.h"

namespace mlx::registry {
namespace {

constexpr std::size_t kMostProblems = 1000;

class Audit {
 public:
  Audit(const std::string& root, store::Disk& disk, Pool& pool, const store::StoreOptions& options,
        const Environment& environment, const Kinds& kinds)
      : kinds_(kinds),
        root_(root),
        environment_(environment),
        folder_(join_path(root, ".mlx")),
        store_(folder_, disk, pool, options),
        disk_(disk),
        pool_(pool),
        db_(join_path(folder_, "meta.db"), store::Database::Open::kReadWrite) {}

  AuditReport run(const std::string& head, Progress& progress) {
    db_.migrate(kMigrations);
    // A private copy is audited in the same way; the list of unsealed runs below is a table in it.
    const auto look_in = [&] { look(head, progress); };
    db_.writable() ? look_in() : db_.change_privately(look_in);
    return std::move(report_);
  }

 private:
  void look(const std::string& head, Progress& progress) {
    store::Transaction transaction(db_);  // nobody records meanwhile; rolled back at the end
    store_.reload();                      // what was recorded so far is in packs by now
    read_rows();
    check_known();
    check_order();
    check_graph();
    DigestTable journal;
    read_journal(journal);
    read_packs(journal);
    check_projection(progress);
    check_head(head);
    check_trust();
    check_claims();
  }

  template <typename... Args>
  void problem(fmt::format_string<Args...> format, Args&&... args) {
    if (report_.problems.size() < kMostProblems)
      report_.problems.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  // Checks each row alone: its bytes hash to its id, and its columns match its bytes.
  void read_rows() {
    store::Statement select = db_.prepare("SELECT seq, id, kind, actor, time, bytes FROM operations ORDER BY seq");
    while (select.step()) {
      const std::string row = fmt::format("meta.db: operations: row {}", select.int64(0));
      Operation operation;
      try {
        operation = decode(select.blob(5));
        if (operation.id != select.digest(1)) {
          problem("{} ({}): its bytes were altered: they hash to {}", row, select.digest(1).brief(),
                  operation.id.brief());
          continue;
        }
        if (operation.kind != select.text(2) || operation.actor != select.text(3) ||
            operation.time != select.int64(4)) {
          problem("{} ({}): kind, actor or time were altered", row, operation.id.brief());
        }
      } catch (const Error& error) {
        problem("{}: was altered: {}", row, error.message);
        continue;
      }
      known_.add(operation);
    }
    report_.operations = known_.size();
    known_.settle();
  }

  void check_known() {
    report_.history_lost = is_history_lost(db_);
    if (report_.history_lost) problem(kHistoryLost);
  }

  void check_order() {
    if (const auto wrong = known_.first_misplaced()) {
      problem("meta.db: operations: {} is where {} belongs: rows were reordered", wrong->first.brief(),
              wrong->second.brief());
    }
  }

  void check_graph() {
    known_.visit_missing([&](const Digest& parent, const Digest& child) {
      problem("meta.db: operations: {} was removed: {} comes after it", parent.brief(), child.brief());
    });
    report_.heads = known_.heads();
  }

  // The next command applies what a crash left at the journal's end, so this is no problem. Everything else must be in
  // meta.db too.
  void read_journal(DigestTable& journal) {
    const std::string path = journal_path(folder_);
    OperationStage absent;
    try {
      const std::uint64_t size = journal_size(path);  // before reading: others may append
      const bool was_whole = !journal_differs(db_, path);
      const std::uint64_t whole = store::Journal(path, disk_).visit([&](const Digest& id, ByteView bytes) {
        const Operation operation = decode(bytes);
        for (const Digest& parent : operation.parents) {
          if (journal.contains(parent) || store_.has(store::ObjectKind::kOperation, parent)) continue;
          problem("journal: {} comes before its parent {}, or the parent was removed", id.brief(), parent.brief());
        }
        journal.insert(id);
        if (!known_.has(id)) absent.add(operation);
      });
      if (was_whole && whole < size)
        problem("journal: offset {}: its last operations were altered since they were written", whole);
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kCorrupt) throw;
      problem("journal: {}", error.message);
    }
    absent.settle();
    store::Statement noted = db_.prepare("SELECT value FROM meta WHERE key = 'journal_bytes'");
    const std::uint64_t agreed = noted.step() ? static_cast<std::uint64_t>(noted.int64(0)) : 0;
    const std::uint64_t size = journal_size(path);
    if (size < agreed) problem("journal: is shorter than when it was last written: its end was cut off");
    absent.visit([&](const Operation& operation) {
      if (size > agreed && extends_known(operation, absent)) return;
      problem("meta.db: operations: {} ({}) was removed: the journal has it", operation.id.brief(), operation.kind);
    });
  }

  // True if the operation was written after the database last agreed with the journal: nothing in the database descends
  // from it.
  bool extends_known(const Operation& operation, OperationStage& absent) {
    return !known_.is_parent(operation.id) && std::ranges::all_of(operation.parents, [&](const Digest& parent) {
      return known_.has(parent) || absent.has(parent);
    });
  }

  void read_packs(DigestTable& journal) {
    DigestTable packed;
    store::visit_operations(store_, [&](const Digest& id) { packed.insert(id); });
    packed.visit([&](const Digest& id) {
      try {
        (void)decode(store_.read(store::ObjectKind::kOperation, id));
      } catch (const Error& error) {
        if (error.kind != ErrorKind::kCorrupt) throw;
        problem("packs: operation {}: {}", id.brief(), error.message);
        return;
      }
      if (!known_.has(id) && !journal.contains(id))
        problem("meta.db: operations: {} was removed: a pack has it", id.brief());
    });
    known_.visit([&](const Operation& operation) {
      if (!journal.contains(operation.id) && !packed.contains(operation.id))
        problem("journal: operation {} ({}) was removed: meta.db has it", operation.id.brief(), operation.kind);
    });
  }

  // Runs only if all operations are sound; other operations would give other tables.
  void check_projection(Progress& progress) {
    if (!report_.problems.empty()) return;
    note_unsealed();
    const TempFolder temporary(environment_);
    const std::string path = join_path(temporary.path(), "meta.db");
    {
      store::Database fresh(path, store::Database::Open::kCreate);
      fresh.run("PRAGMA synchronous = OFF");
      fresh.migrate(kMigrations);
      store::Transaction transaction(fresh);
      rebuild_projection(fresh, store_, kinds_, known_, progress);
      transaction.commit();
    }
    compare_with(path);
  }

  // A head that somebody kept elsewhere must be part of the history; otherwise its end was cut off.
  void check_head(const std::string& head) {
    const std::string digits = head.starts_with("sha256:") ? head.substr(7) : head;
    if (!known_.has_prefix(digits)) problem("head {} is not in this history: its end was cut off", head);
  }

  void check_trust() {
    TrustReport trust = verify_trust(kinds_, root_, known_, pool_);
    report_.problems.insert(report_.problems.end(), trust.problems.begin(), trust.problems.end());
    report_.notes = std::move(trust.notes);
  }

  // Checks versions whose file list is here and readable.
  void check_claims() {
    for (const Kind* const kind : kinds_.rows()) {
      if (!kind->content.has(Role::kVersion)) continue;
      known_.visit_kind(std::string(kind->name), [&](const Operation& operation) { check_claim(operation); });
    }
  }

  void check_claim(const Operation& operation) {
    try {
      for (const Digest& version : content_of(kinds_, operation).of(Role::kVersion)) {
        if (!store_.has(store::ObjectKind::kManifest, version)) continue;
        std::string wrong = false_claim(kinds_, operation, store_.summarize(version));
        if (!wrong.empty() && report_.notes.size() < kMostProblems) report_.notes.push_back(std::move(wrong));
      }
    } catch (const Error& error) {
      if (error.kind == ErrorKind::kInterrupted || error.kind == ErrorKind::kIo) throw;  // fsck reports other errors
    }
  }

  void note_unsealed();
  void compare_with(const std::string& path);
  void compare(const std::string& what, const std::string& ours, const std::string& fresh);
  void compare_table(const std::string& table);
  void compare_metrics();
  void compare_schema();

  const Kinds& kinds_;
  std::string root_;
  Environment environment_;
  std::string folder_;
  store::Store store_;
  store::Disk& disk_;
  Pool& pool_;
  store::Database db_;
  OperationStage known_;  // the undamaged ones of meta.db
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

// Both queries return one text per row.
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

// The query for a row's text: artifact='clf' digest=X'01…'
void Audit::compare_table(const std::string& table) {
  std::string row;
  store::Statement columns = db_.prepare(fmt::format("SELECT name FROM pragma_table_info('{}') ORDER BY cid", table));
  while (columns.step())
    row += fmt::format("{}{}=' || quote({})", row.empty() ? "'" : " || ' ", columns.text(0), columns.text(0));
  const auto rows_of = [&](const char* schema) { return fmt::format("SELECT {} FROM {}.{}", row, schema, table); };
  compare(table, rows_of("main"), rows_of("fresh"));
}

// Lists runs whose metrics cannot be compared. A running run has metrics that no operation holds yet. A run's sealed
// series may not be in this store; if it came after the operation there are no rows, and the series is read instead.
// Call before the projection is made, because a series may arrive meanwhile.
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
    if (parse_run_status(runs.text(1)) == RunStatus::kRunning || !sealed || !rows) insert.bind(runs.text(0)).run();
  }
}

// Ids of series are local to a database, so they are not compared.
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

// A trigger or a view would change what tables return without changing a row.
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
                           const store::StoreOptions& options, const std::string& head, const Environment& environment,
                           const Kinds& kinds) {
  const std::string database = join_path(join_path(root, ".mlx"), "meta.db");
  if (!path_exists(database)) {
    throw Error(ErrorKind::kCorrupt, fmt::format("{}: is missing, so there is nothing to compare with", database),
                "`mlx fsck --rebuild` rebuilds it from the operations in the journal and packs");
  }
  return Audit(root, disk, pool, options, environment, kinds).run(head, progress);
}

}  // namespace mlx::registry
