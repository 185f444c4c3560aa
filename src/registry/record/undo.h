// Taking operations back. An operation.undo names one operation, which then counts as never applied; an undo can be
// undone in turn, which brings the operation back. Nothing is ever removed: mlx-format-operation(5), UNDO.
#pragma once

#include <string>
#include <vector>

#include "registry/operations/operation.h"
#include "registry/repository.h"

namespace mlx::registry {

struct Undoing {
  Operation operation;  // what is taken back; an undo where something is brought back
  Operation subject;    // the operation at the end of the chain: what people recognise
  bool brings_back = false;
  bool unchanged = false;  // it is not in force already
  bool shared = false;     // it may have left this clone
};
// Of this person's operations in this clone the one that came into force last and is no undo; with `redo` the last
// undo; the one whose id begins with `id` (at least 8 hex digits) where that is not "". kNotFound, kRefused for runs
// and for what other clones made, kConflict where something later builds on it, naming it.
Undoing plan_undo(Repository& repository, const std::string& id, bool redo);
// Plans under the write lock and records. The id of the new operation is in `made`, zero where unchanged.
Undoing undo(Repository& repository, const std::string& id, bool redo, Digest* made = nullptr);

}  // namespace mlx::registry
