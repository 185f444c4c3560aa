// Applies an operation to the database: its own row and the heads, then its kind's projection.
#include "registry/operations/apply.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "registry/operations/application.h"

namespace mlx::registry {
namespace {

// Inserts the operation's row and updates the heads. Returns its place in the fixed order.
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
  // Kept from the first time, however often the operation is applied again.
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

void apply(store::Database& db, const store::Store& store, const Kinds& kinds, const Operation& operation,
           Ancestry& ancestry, bool undone) {
  const Kind& kind = kinds.at(operation.kind);
  if (db.prepare("SELECT 1 FROM operations WHERE id = ?").bind(operation.id).step()) return;
  const std::int64_t seq = insert_operation(db, operation);
  if (undone) {
    db.prepare("INSERT INTO undone (operation) VALUES (?)").bind(operation.id).run();
    return;
  }
  const Json body = parse_json(operation.body, "operation " + operation.id.brief());
  kind.apply(Application(db, store, kinds, kind, operation, body, seq, ancestry));
}

}  // namespace mlx::registry
