// Undoes operations. An operation.undo names one operation, which then counts as never applied; an undo can itself be
// undone, which restores the operation. Nothing is ever removed: mlx-format-operation(5), UNDO.
#pragma once

#include <string>
#include <vector>

#include "registry/operations/operation.h"
#include "registry/repository.h"

namespace mlx::registry {

struct Undoing {
  Operation operation;  // what is undone; an undo if something is restored
  Operation subject;    // the operation at the end of the chain, which people recognise
  bool brings_back = false;
  bool unchanged = false;  // it is already out of force
  bool shared = false;     // it may have left this clone
};
// Chooses the operation to undo: the one whose id begins with `id` (at least 8 hex digits); if `id` is "", the one of
// this person in this clone that came into force last and is not an undo, or with `redo` their last undo. Throws
// kNotFound; kRefused for runs and for other clones' operations; kConflict if a later operation builds on it, naming
// that one.
Undoing plan_undo(Repository& repository, const std::string& id, bool redo);
// Plans under the write lock, and records. Sets `made` to the id of the new operation, or to zero if unchanged.
Undoing undo(Repository& repository, const std::string& id, bool redo, Digest* made = nullptr);

}  // namespace mlx::registry
