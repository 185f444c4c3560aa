// What an operation does to the database: its own row and the heads, then what its kind's function projects. The table
// of kinds is here.
#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "registry/keys/trust.h"
#include "registry/operations/apply.h"
#include "registry/operations/operation.h"

namespace mlx::registry {
namespace {

struct Kind {
  const char* name;
  Apply apply;
  Right right;  // what its signer must be trusted with
};

// What it says it says with its parents.
void apply_history_join(const Application&) {}

constexpr Kind kKinds[] = {
    {"version.create", apply_version_create, Right::kCommit},
    {"version.renumber", apply_version_renumber, Right::kCommit},
    {"version.lost", apply_version_lost, Right::kCommit},
    {"alias.move", apply_alias_move, Right::kPromote},
    {"tag.create", apply_tag_create, Right::kCommit},
    {"tag.delete", apply_tag_delete, Right::kCommit},
    {"attach", apply_attach, Right::kCommit},
    {"operation.undo", apply_operation_undo, Right::kCommit},
    {"actor.describe", apply_actor_describe, Right::kCommit},
    {"actor.forget", apply_actor_forget, Right::kErase},
    {"history.join", apply_history_join, Right::kCommit},
    {"domain.assign", apply_domain_assign, Right::kKeys},
    {"key.erase", apply_key_erase, Right::kErase},
    {"run.start", apply_run_start, Right::kCommit},
    {"run.checkpoint", apply_run_checkpoint, Right::kCommit},
    {"run.resume", apply_run_resume, Right::kCommit},
    {"run.end", apply_run_end, Right::kCommit},
};

const Kind& kind_of(const std::string& name) {
  const auto* const row = std::ranges::find(kKinds, name, &Kind::name);
  if (row != std::end(kKinds)) return *row;
  throw Error(ErrorKind::kCorrupt, fmt::format("this mlx does not know operations of the kind '{}'", name),
              "it was written by a newer mlx: upgrade this one");
}

// The row of the operation itself and the heads of the graph; returns its place in the order.
std::int64_t insert_operation(store::Database& db, const Operation& operation) {
  store::Statement known = db.prepare("SELECT 1 FROM operations WHERE id = ?");
  for (const Digest& parent : operation.parents) {
    if (!known.bind(parent).step()) {
      fail(ErrorKind::kCorrupt, "operation {}: its parent {} is missing", operation.id.brief(), parent.brief());
    }
    known.reset();
  }
  const std::optional<Digest> signer = operation.is_signed() ? std::optional(operation.signer) : std::nullopt;
  db.prepare("INSERT INTO operations (id, kind, actor, time, bytes, signer) VALUES (?, ?, ?, ?, ?, ?)")
      .bind(operation.id, operation.kind, operation.actor, operation.time, encode(operation), signer)
      .run();
  const std::int64_t seq = db.last_insert_id();
  // Once, whatever is applied again.
  db.prepare(
        "INSERT OR IGNORE INTO taken (operation, time, place) VALUES (?, ?, (SELECT coalesce(max(place), 0) + 1 FROM "
        "taken))")
      .bind(operation.id, unix_micros())
      .run();
  store::Statement link = db.prepare("INSERT INTO operation_parents (child, parent) VALUES (?, ?)");
  store::Statement unhead = db.prepare("DELETE FROM heads WHERE id = ?");
  for (const Digest& parent : operation.parents) {
    link.bind(operation.id, parent).run();
    unhead.bind(parent).run();
  }
  db.prepare("INSERT INTO heads (id) VALUES (?)").bind(operation.id).run();
  return seq;
}

}  // namespace

std::vector<std::string> operation_kinds() {
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) names.emplace_back(kind.name);
  return names;
}

// Forgetting one's own name takes no more than having given it.
Right right_of(const Operation& operation) {
  if (operation.kind == "actor.forget") {
    const Json body = parse_json(operation.body, "operation " + operation.id.brief());
    const auto forgotten = body.find("actor");
    if (forgotten != body.end() && *forgotten == operation.actor) return Right::kCommit;
  }
  return kind_of(operation.kind).right;
}

void apply(store::Database& db, const store::Store& store, const Operation& operation, Ancestry& ancestry,
           bool undone) {
  const Kind& kind = kind_of(operation.kind);
  if (db.prepare("SELECT 1 FROM operations WHERE id = ?").bind(operation.id).step()) return;
  const std::int64_t seq = insert_operation(db, operation);
  if (undone) {
    db.prepare("INSERT INTO undone (operation) VALUES (?)").bind(operation.id).run();
    return;
  }
  const Json body = parse_json(operation.body, "operation " + operation.id.brief());
  kind.apply(Application{db, store, operation, body, seq, ancestry});
}

}  // namespace mlx::registry
