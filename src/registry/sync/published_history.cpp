// A database with the tables of meta.db, either a file of the remote or one for a single push.
#include "registry/sync/published_history.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "registry/operations/body.h"
#include "registry/operations/history.h"
#include "registry/operations/schema.h"
#include "registry/sync/unrelated.h"

namespace mlx::registry {
namespace {

using store::ObjectKind;

constexpr const char* kFile = "history.db";

[[noreturn]] void refuse_heads(const std::string& what, const std::string& hint) {
  throw Error(ErrorKind::kRefused, fmt::format("the heads were not published: {}", what), hint);
}

store::Database open_remembered(const std::string& path) {
  store::Database db(path, store::Database::Open::kCreate);
  if (db.schema_version() == 0) {
    db.migrate(kMigrations);
    db.run("DELETE FROM meta WHERE key = 'outdated'");
  }
  if (!db.writable() || db.schema_version() != kMigrations.back().version)
    fail(ErrorKind::kCorrupt, "{}: of another mlx", path);
  return db;
}

// Removes the cache, to make it from nothing. Others who have it open write to a file that nobody reads.
void remove_remembered(const std::string& path) {
  for (const char* end : {"", "-wal", "-shm"}) (void)::unlink((path + end).c_str());
}

}  // namespace

PublishedHistory::PublishedHistory(const store::Store& store, const Kinds& kinds) : store_(store), kinds_(kinds) {
  open();
}

// Any failure here is harmless: the result is the same without the cache.
void PublishedHistory::open() {
  const std::string path = join_path(store_.folder(), kFile);
  for (int tries = 0; tries < 2; ++tries) {
    try {
      db_.emplace(open_remembered(path));
      transaction_.emplace(*db_);
      return;
    } catch (const Error& error) {
      if (error.kind == ErrorKind::kInterrupted) throw;
      db_.reset();
      if (error.kind != ErrorKind::kCorrupt) break;  // another process writes it, or it is not writable
      remove_remembered(path);
    }
  }
  db_.emplace(scratch_database());
  db_->migrate(kMigrations);
}

void PublishedHistory::begin_anew() {
  for (const char* table : projected_tables()) db_->run(fmt::format("DELETE FROM {}", table));
  db_->run("DELETE FROM taken");
}

void PublishedHistory::stage_beyond(const std::vector<Digest>& heads, OperationStage& beyond) {
  for (std::vector<Digest> todo = heads; !todo.empty();) {
    store_.interruption().check();
    const Digest id = todo.back();
    todo.pop_back();
    if (is_recorded(*db_, id) || beyond.has(id)) continue;
    if (!store_.has(ObjectKind::kOperation, id)) {
      refuse_heads(fmt::format("operation {} is missing", id.brief()),
                   "push from a clone that has it; `mlx push --repair` sends again what the remote has lost");
    }
    const Operation operation = decode(store_.read(ObjectKind::kOperation, id));
    beyond.add(operation);
    todo.insert(todo.end(), operation.parents.begin(), operation.parents.end());
  }
  beyond.settle();
}

// A recorded head has no recorded children, so either a staged operation names it, or nothing that is wanted reaches
// it.
bool PublishedHistory::extends(const std::vector<Digest>& heads, OperationStage& beyond) {
  return std::ranges::all_of(select_heads(*db_), [&](const Digest& head) {
    return std::ranges::find(heads, head) != heads.end() || beyond.is_parent(head);
  });
}

void PublishedHistory::apply(OperationStage& beyond) try {
  NoProgress quiet(store_.interruption());
  adopt(*db_, store_, kinds_, beyond, quiet);
  db_->run("DELETE FROM metrics; DELETE FROM metric_series");  // their source is in blobs
} catch (const Error& error) {
  if (error.kind != ErrorKind::kCorrupt && error.kind != ErrorKind::kNotFound) throw;
  refuse_heads(fmt::format("no clone could apply them: {}", error.message),
               error.hint.empty()
                   ? "`mlx push --repair` leaves out what cannot be applied, from a clone that has the rest"
                   : "if a newer mlx wrote it, upgrade the server's mlx first");
}

void PublishedHistory::require_related(OperationStage& beyond) {
  if (all_joined(beyond)) return;
  refuse_heads("some operations have nothing in common with what is there",
               "if two clones of one project started separately, `mlx pull --allow-unrelated-histories` joins them");
}

// False if it is incomplete or cannot be applied.
bool PublishedHistory::take_in_before(const std::vector<Digest>& before) try {
  for (const bool anew : {false, true}) {
    if (anew) begin_anew();
    OperationStage beyond;
    stage_beyond(before, beyond);
    if (!extends(before, beyond)) continue;
    if (beyond.size() > 0) apply(beyond);
    break;
  }
  return true;
} catch (const Error& error) {
  if (error.kind != ErrorKind::kRefused && error.kind != ErrorKind::kCorrupt && error.kind != ErrorKind::kNotFound)
    throw;
  begin_anew();
  return false;
}

PublishedHistory::Required PublishedHistory::take_in(const std::vector<Digest>& before,
                                                     const std::vector<Digest>& heads, bool all_kept) {
  Required required;
  required.all = !take_in_before(before) || before.empty();
  std::optional<OperationStage> beyond(std::in_place);
  stage_beyond(heads, *beyond);
  if (!extends(heads, *beyond)) {  // a repair leaves some out
    CHECK(!all_kept);
    begin_anew();
    required.all = true;
    stage_beyond(heads, beyond.emplace());
  }
  if (!required.all && all_kept) require_related(*beyond);
  const DigestSet were_excused = excused();
  if (beyond->size() > 0) apply(*beyond);
  const DigestSet are_excused = excused();
  beyond->visit([&](const Operation& operation) {
    if (!are_excused.contains(operation.id)) required.operations.push_back(operation.id);
  });
  std::ranges::copy_if(were_excused, std::back_inserter(required.operations),
                       [&](const Digest& id) { return !are_excused.contains(id); });
  return required;
}

// An erasure of `main` counts only where it was made (domains.cpp).
PublishedHistory::DigestSet PublishedHistory::excused() {
  DigestSet found;
  store::Statement select = db_->prepare(
      "SELECT operation FROM undone UNION SELECT x.operation FROM erased_makers x"
      " JOIN erasures e ON e.operation = x.erasure WHERE e.domain <> 'main'");
  while (select.step()) found.insert(select.digest(0));
  return found;
}

bool PublishedHistory::keeps_blobs(const Operation& operation) {
  const Json body = parse_json(operation.body, "operation " + operation.id.brief());
  const Kind& kind = kinds_.at(operation.kind);
  if (kind.keeps && !kind.keeps(*db_, operation, body)) return false;
  const DigestField* const field =
      kind.domain == ContentDomain::kVersion ? kind.content.find(Role::kReference) : nullptr;
  const std::optional<Digest> version = field ? Body(body).digest(*field) : std::nullopt;
  if (!version) return true;
  const DigestSet gone = excused();
  store::Statement makers = db_->prepare("SELECT operation FROM version_makers WHERE digest = ?");
  bool any = false;
  for (makers.bind(*version); makers.step(); any = true) {
    if (!gone.contains(makers.digest(0))) return true;
  }
  return !any;
}

Losses PublishedHistory::lost() {
  return lost_versions(*db_, kinds_);
}

void PublishedHistory::remember() {
  if (transaction_) transaction_->commit();
}

}  // namespace mlx::registry
