// Which operations of a history are in force. An operation.undo names one operation, which then counts as never
// applied; an undo can be undone in turn, which brings the operation back: mlx-format-operation(5), UNDO.
#pragma once

#include <optional>
#include <unordered_set>

#include "base/json_fwd.h"
#include "registry/operations/kinds.h"
#include "registry/operations/operation.h"
#include "store/sqlite.h"

namespace mlx::registry {

using OperationSet = std::unordered_set<Digest, DigestHash>;
class OperationStage;

// The operation that this one takes back; nullopt where it is none that does.
std::optional<Digest> taken_back_by(const Kinds& kinds, const Operation& operation);

// Does `later` build on what `earlier` did: on a version that it made, or in its place? Such an operation keeps
// `earlier` in force. `b` and `a` are their bodies.
bool builds_on(const Kinds& kinds, const Operation& later, const Json& b, const Operation& earlier, const Json& a);

// The operations of a whole history, settled, that are not in force. A function of the set alone, so that
// clones with the same operations agree. Undos that someone who did not know of them has overruled (by building on what
// was undone) do not count.
OperationSet undone_operations(const Kinds& kinds, OperationStage& history);

bool holds_undo(const Kinds& kinds, OperationStage& operations);

// Whether the content that a recorded operation names is wanted: it was not taken back, and its kind still keeps it (a
// name that was forgotten and a checkpoint that was let go of are nobody's).
class InForce {
 public:
  InForce(store::Database& db, const Kinds& kinds);
  bool operator()(const Operation& operation, const Json& body);

 private:
  store::Database& db_;
  const Kinds& kinds_;
  store::Statement undone_;
};

}  // namespace mlx::registry
