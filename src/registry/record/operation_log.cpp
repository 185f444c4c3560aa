// First collects the matching operations on disk, then reads each again to show it.
#include "registry/record/operation_log.h"

#include <string>

#include "registry/operations/history.h"
#include "registry/operations/operation_stage.h"
#include "registry/operations/operation_text.h"

namespace mlx::registry {
namespace {

constexpr const char* kLogTables =
    "CREATE TABLE entries (row INTEGER PRIMARY KEY, id BLOB NOT NULL, run TEXT UNIQUE, checkpoints INTEGER NOT NULL);"
    "BEGIN;";

}  // namespace

std::uint64_t visit_log(Repository& repository, const LogQuery& query,
                        const std::function<void(const LogEntry&)>& visit) {
  store::Database& db = repository.db();
  store::Database found = scratch_database(kLogTables);
  store::Statement add = found.prepare(
      "INSERT INTO entries (row, id, run, checkpoints) VALUES (?, ?, ?, 1) ON CONFLICT (run) DO UPDATE SET"
      " row = excluded.row, id = excluded.id, checkpoints = checkpoints + 1");
  std::int64_t row = 0;
  const Kinds& kinds = repository.kinds();
  visit_encoded(db, [&](const Digest& id, const std::string& kind, ByteView bytes) {
    const bool folded = query.fold && kinds.at(kind).traits.folded;
    std::optional<std::string> run;
    if (folded || query.matches) {
      const Operation operation = decode(bytes);
      if (query.matches && !query.matches(operation)) return;
      if (folded) run = operation_subject(kinds, operation).run;
    }
    add.bind(++row, id, run).run();
  });
  store::Statement entries = found.prepare("SELECT id, checkpoints FROM entries ORDER BY row DESC LIMIT ?");
  store::Statement select = db.prepare(
      "SELECT o.bytes, u.operation FROM operations o LEFT JOIN undone u ON u.operation = o.id WHERE o.id = ?");
  std::uint64_t count = 0;
  for (entries.bind(query.most); entries.step(); ++count) {
    CHECK(select.bind(entries.digest(0)).step());  // operations are never deleted
    const LogEntry entry{decode(select.blob(0)), !select.null(1), static_cast<std::uint64_t>(entries.int64(1))};
    select.reset();
    visit(entry);
  }
  return count;
}

}  // namespace mlx::registry
