// Operations: immutable, hash-chained records of every change to metadata (mlx-format-operation(5)). The projected
// tables of meta.db are written by `apply` and nothing else, so that the database can be rebuilt from operations alone.
//
// An operation's bytes are canonical JSON; its id is their SHA-256. A new kind is one file with its apply, and one row
// in the table of operation.cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/json_fwd.h"
#include "store/sqlite.h"

namespace mlx::store {
class Store;
}

namespace mlx::registry {

struct Operation {
  Digest id;
  std::string
      kind;  // "version.create", "alias.move", "tag.create", "run.start", "run.checkpoint", "run.end", "attach" …
  std::vector<Digest> parents;  // heads of the graph when it was made, sorted
  std::string actor;            // pseudonymous id: 16 hex digits, random per clone
  std::int64_t time = 0;        // unix microseconds
  std::string body;             // canonical JSON of the kind's own fields
};

Bytes encode(const Operation& operation);
Operation decode(ByteView bytes);  // kCorrupt where fields are missing, of other types, or bytes are not canonical

// Applies one operation to the projected tables, inside the caller's transaction. Idempotent by id. Blobs that it needs
// (a sealed metric series) are read from `store`. kCorrupt for an unknown kind of a newer version, naming it.
// One that is `undone` is recorded only: it counts as never applied.
void apply(store::Database& db, const store::Store& store, const Operation& operation, bool undone = false);

// A fixed order for a set of operations: parents first, then by time, then by id.
std::vector<Operation> fixed_order(std::vector<Operation> operations);

}  // namespace mlx::registry
