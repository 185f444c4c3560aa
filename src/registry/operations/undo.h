// Taking operations back. An operation.undo names one operation, which then counts as never applied; an undo can be
// undone in turn, which brings the operation back. Nothing is ever removed: mlx-format-operation(5), UNDO.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "base/json_fwd.h"
#include "registry/operations/operation.h"
#include "registry/repository.h"

namespace mlx::registry {

using OperationSet = std::unordered_set<Digest, DigestHash>;
class OperationStage;

inline constexpr const char* kUndoKind = "operation.undo";

// Does `later` build on what `earlier` did? Such an operation keeps `earlier` in force. `b` and `a` are their bodies.
bool builds_on(const Operation& later, const Json& b, const Operation& earlier, const Json& a);

// The operations of a whole history, settled, that are not in force. A function of the set alone, so that
// clones with the same operations agree. Undos that someone who did not know of them has overruled (by building on what
// was undone) do not count.
OperationSet undone_operations(OperationStage& history);

bool holds_undo(OperationStage& operations);

// Without those that were taken back, and without names that were forgotten: what is left of their content is nobody's.
std::vector<Operation> in_force(store::Database& db, std::vector<Operation> operations);
// The same, asked of one after the other.
class InForce {
 public:
  explicit InForce(store::Database& db);
  bool operator()(const Operation& operation);

 private:
  store::Statement undone_, named_;
};

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
