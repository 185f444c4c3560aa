// What an operation does to the database: its own row and the heads, then what its kind's function projects. The table
// of kinds is here.
#include "base/error.h"
#include "base/json.h"
#include "registry/apply.h"
#include "registry/operation.h"

namespace mlx::registry {
namespace {

struct Kind {
  const char* name;
  Apply apply;
};

constexpr Kind kKinds[] = {
    {"version.create", apply_version_create},
    {"version.renumber", apply_version_renumber},
    {"alias.move", apply_alias_move},
    {"tag.create", apply_tag_create},
    {"tag.delete", apply_tag_delete},
    {"attach", apply_attach},
    {"operation.undo", apply_operation_undo},
    {"actor.describe", apply_actor_describe},
    {"actor.forget", apply_actor_forget},
    {"domain.assign", apply_domain_assign},
    {"key.erase", apply_key_erase},
    {"run.start", apply_run_start},
    {"run.checkpoint", apply_run_checkpoint},
    {"run.resume", apply_run_resume},
    {"run.end", apply_run_end},
};

Apply apply_of(const Operation& operation) {
  for (const Kind& kind : kKinds) {
    if (operation.kind == kind.name) return kind.apply;
  }
  throw Error(ErrorKind::kCorrupt,
              fmt::format("operation {}: this mlx does not know the kind '{}'", operation.id.brief(), operation.kind),
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
  db.prepare("INSERT INTO operations (id, kind, actor, time, bytes) VALUES (?, ?, ?, ?, ?)")
      .bind(operation.id, operation.kind, operation.actor, operation.time, encode(operation))
      .run();
  const std::int64_t seq = db.last_insert_id();
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

void apply(store::Database& db, const store::Store& store, const Operation& operation, bool undone) {
  const Apply apply_body = apply_of(operation);
  if (db.prepare("SELECT 1 FROM operations WHERE id = ?").bind(operation.id).step()) return;
  const std::int64_t seq = insert_operation(db, operation);
  if (undone) {
    db.prepare("INSERT INTO undone (operation) VALUES (?)").bind(operation.id).run();
    return;
  }
  const Json body = parse_json(operation.body, "operation " + operation.id.brief());
  apply_body(Application{db, store, operation, body, seq});
}

}  // namespace mlx::registry
