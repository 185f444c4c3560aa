// Applies operations to the projected tables.
#pragma once

#include "registry/operations/ancestry.h"
#include "registry/operations/kinds.h"
#include "registry/operations/operation.h"
#include "store/pack/store.h"

namespace mlx::registry {

// Applies one operation, inside the caller's transaction. Idempotent by id. Reads the blobs that it needs (a sealed
// metric series) from `store`. Throws kCorrupt for an unknown kind of a newer version, naming it. An `undone` operation
// is only recorded, and counts as never applied. A caller that applies many passes the same `ancestry` to all calls.
void apply(store::Database& db, const store::Store& store, const Kinds& kinds, const Operation& operation,
           Ancestry& ancestry, bool undone = false);

}  // namespace mlx::registry
