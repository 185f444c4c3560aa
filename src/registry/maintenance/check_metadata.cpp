// The same facts are stored in three places: operations in the journal and in packs, their rows in meta.db, and the
// tables projected from them. Each is compared with its source.
#include "registry/maintenance/check_metadata.h"

#include <fmt/format.h>

#include <array>
#include <bit>

#include <memory>

#include "base/error.h"
#include "base/path.h"
#include "registry/keys/keys.h"
#include "registry/operations/history.h"
#include "registry/operations/schema.h"
#include "registry/sync/claims.h"
#include "registry/sync/seen_heads.h"
#include "registry/versions/domains.h"
#include "registry/versions/pointers.h"
#include "store/pack/usage.h"

namespace mlx::registry {
namespace {

// A checksum of a table's rows that does not depend on their order: the sum of their digests. Sorting would take
// memory, because rows can be as large as operations.
using TableSum = std::array<std::uint64_t, 4>;

TableSum sum_of_table(store::Database& db, const std::string& table) {
  std::string row;
  store::Statement columns = db.prepare(fmt::format("SELECT name FROM pragma_table_info('{}')", table));
  while (columns.step()) row += fmt::format("{}quote(\"{}\")", row.empty() ? "" : " || ',' || ", columns.text(0));
  TableSum sum{};
  store::Statement select = db.prepare(fmt::format("SELECT {} FROM {}", row, table));
  while (select.step()) {
    const auto lanes = std::bit_cast<TableSum>(Digest::of(as_bytes(select.text(0))));
    for (std::size_t lane = 0; lane < sum.size(); ++lane) sum[lane] += lanes[lane];
  }
  return sum;
}

// The sum of each projected table, with the table's name.
std::vector<std::pair<std::string, TableSum>> sums_of_tables(store::Database& db) {
  std::vector<std::pair<std::string, TableSum>> sums;
  for (const std::string name : projected_tables()) {
    if (name == "metrics" || name == "metric_series") continue;  // running runs; series not yet fetched
    sums.emplace_back(name, sum_of_table(db, name));
  }
  return sums;
}

void check_projection(Repository& repository, MetadataCheck& check) {
  OperationStage operations;
  std::vector<std::pair<std::string, TableSum>> stored;
  {
    // Read operations and tables in one transaction: others commit meanwhile.
    store::Transaction moment(repository.db(), store::Transaction::Access::kRead);
    visit_operations(repository.db(), [&](const Operation& operation) { operations.add(operation); });
    stored = sums_of_tables(repository.db());
  }
  operations.settle();
  store::Database fresh = scratch_database();
  fresh.migrate(kMigrations);
  NoProgress quiet(repository.interruption());
  {
    store::Transaction transaction(fresh);
    rebuild_projection(fresh, repository.store(), repository.kinds(), operations, quiet);
    transaction.commit();
  }
  const std::vector<std::pair<std::string, TableSum>> made = sums_of_tables(fresh);
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (stored[i] == made[i]) continue;
    check.problems.push_back(fmt::format("meta.db: the table '{}' does not match the operations", made[i].first));
    check.rebuild = true;
  }
}

void check_database(Repository& repository, MetadataCheck& check) {
  try {
    store::Statement integrity = repository.db().prepare("PRAGMA integrity_check(1)");
    if (integrity.step() && integrity.text(0) != "ok") {
      check.problems.push_back("meta.db: " + integrity.text(0));
      check.rebuild = true;
      return;
    }
    integrity.reset();
    check_projection(repository, check);
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kCorrupt) throw;
    check.problems.push_back(error.message);
    check.rebuild = true;
  }
}

// The operations of the database; none if it is so damaged that its own check reports it.
std::unique_ptr<OperationStage> readable_operations(Repository& repository) {
  auto operations = std::make_unique<OperationStage>();
  try {
    visit_operations(repository.db(), [&](const Operation& operation) { operations->add(operation); });
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kCorrupt) throw;
    operations = std::make_unique<OperationStage>();
  }
  operations->settle();
  return operations;
}

// A torn end is what a crash leaves, and no damage, unless it was whole when the database last agreed with the journal,
// or unless it held operations that the database has.
void check_journal(Repository& repository, MetadataCheck& check) {
  const std::string path = journal_path(repository.mlx_folder());
  const store::Journal journal(path, repository.disk());
  // An operation is written to the journal or a pack before the database. Read them in the opposite order, because
  // others write meanwhile.
  const std::unique_ptr<OperationStage> operations = readable_operations(repository);
  repository.store().reload();
  DigestTable written;
  try {
    const std::uint64_t size = journal_size(path);  // before reading: others may append
    const bool was_whole = !journal_differs(repository.db(), path);
    const std::uint64_t whole = journal.visit([&](const Digest& id, ByteView) { written.insert(id); });
    if (was_whole && whole < size) {
      check.problems.push_back(fmt::format("{}: offset {}: the last operations are damaged", path, whole));
      check.rebuild = true;
    }
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kCorrupt) throw;
    check.problems.push_back(error.message);
    check.rebuild = true;
    return;
  }
  operations->visit([&](const Operation& operation) {
    if (written.contains(operation.id) || repository.store().has(store::ObjectKind::kOperation, operation.id)) return;
    check.problems.push_back(
        fmt::format("{}: operation {} ({}) is in the database only", path, operation.id.brief(), operation.kind));
    check.rebuild = true;
  });
}

// "" if the operation can be read and accepted.
std::string why_unreadable(Repository& repository, const Digest& operation) {
  try {
    (void)decode(repository.store().read(store::ObjectKind::kOperation, operation));
    return {};
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kCorrupt) throw;
    return error.message;
  }
}

void check_history(Repository& repository, MetadataCheck& check) {
  try {
    for (std::string& problem : unknown_history(repository)) {
      check.problems.push_back(std::move(problem));
      check.rebuild = true;
    }
  } catch (const Error& error) {
    if (error.kind == ErrorKind::kCorrupt) return;  // an earlier check has reported it
    if (error.kind != ErrorKind::kRefused) throw;   // kRefused: locked, so the operations in packs cannot be read
  }
}

void check_pointers(Repository& repository, MetadataCheck& check) {
  try {
    for (const Pointer& pointer : all_pointers(repository)) {
      if (!repository.store().has(store::ObjectKind::kManifest, pointer.digest)) continue;  // not fetched
      if (erasure_of(repository, pointer.digest)) continue;
      try {
        const store::ManifestSummary summary = repository.store().summarize(pointer.digest);
        if (summary.files == pointer.files && summary.bytes == pointer.size) continue;
        check.problems.push_back(fmt::format("{}: claims {} files with {} bytes, but its version has {} with {}",
                                             pointer_path(pointer.kind, pointer.artifact), pointer.files, pointer.size,
                                             summary.files, summary.bytes));
      } catch (const Error& error) {
        if (error.kind != ErrorKind::kCorrupt) throw;
        check.problems.push_back(fmt::format("{}: {}", pointer_path(pointer.kind, pointer.artifact), error.message));
      }
    }
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kCorrupt) throw;
    check.problems.push_back(error.message);
  }
}

void check_claims(Repository& repository, MetadataCheck& check) {
  try {
    for (std::string& line : false_claims(repository)) check.problems.push_back(std::move(line));
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kCorrupt) throw;  // kCorrupt: the database, which has reported it
  }
}

// As far as possible without unlocking the keys.
void check_keys(Repository& repository, MetadataCheck& check) {
  try {
    if (!repository.keys().exist()) return;
    (void)repository.keys().file();
    if (repository.keys().is_half())
      check.problems.push_back(
          fmt::format("{}: one of its two copies is missing or damaged", join_path(repository.mlx_folder(), "keys")));
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kCorrupt) throw;
    check.problems.push_back(error.message);
  }
}

}  // namespace

std::vector<std::string> unknown_history(Repository& repository) {
  constexpr std::size_t kNamed = 20;
  std::vector<std::string> lines;
  // Packs first: an operation recorded meanwhile is in the database before it is in a pack.
  repository.store().reload();
  DigestTable packed;
  store::visit_operations(repository.store(), [&](const Digest& id) { packed.insert(id); });
  store::Database& db = repository.db();
  std::size_t more = 0;
  packed.visit([&](const Digest& id) {
    if (is_recorded(db, id)) return;
    if (lines.size() == kNamed) {
      ++more;
      return;
    }
    const std::string why = why_unreadable(repository, id);
    lines.push_back(why.empty() ? fmt::format("packs: operation {}: not in meta.db", id.brief())
                                : fmt::format("packs: operation {}: cannot be applied: {}", id.brief(), why));
  });
  if (more > 0) lines.push_back(fmt::format("packs: {} more operations that are not in meta.db", more));
  if (is_history_lost(db)) lines.push_back(kHistoryLost);
  return lines;
}

std::vector<std::string> check_own_files(Repository& repository, bool mend) {
  std::vector<std::string> problems = damaged_seen(repository, mend);
  if (const std::string problem = repository.clone_id_problem(); !problem.empty()) {
    problems.push_back(problem);
    if (mend) repository.remove_clone_id();
  }
  return problems;
}

MetadataCheck check_metadata(Repository& repository) {
  MetadataCheck check;
  check_keys(repository, check);
  check_database(repository, check);
  check_journal(repository, check);
  check_history(repository, check);
  check_pointers(repository, check);
  check_claims(repository, check);
  return check;
}

}  // namespace mlx::registry
