// Applying operations to the projected tables.
#pragma once

#include "registry/operations/ancestry.h"
#include "registry/operations/kinds.h"
#include "registry/operations/operation.h"
#include "store/pack/store.h"

namespace mlx::registry {

// Applies one operation, inside the caller's transaction. Idempotent by id. Blobs that it needs (a sealed metric
// series) are read from `store`. kCorrupt for an unknown kind of a newer version, naming it. One that is `undone` is
// recorded only: it counts as never applied. Whoever applies many hands all of them the same `ancestry`.
void apply(store::Database& db, const store::Store& store, const Kinds& kinds, const Operation& operation,
           Ancestry& ancestry, bool undone = false);

}  // namespace mlx::registry
