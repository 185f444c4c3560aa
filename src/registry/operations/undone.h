// Which operations of a history are in force. An operation.undo names one operation, which then counts as never
// applied; an undo can itself be undone, which restores the operation: mlx-format-operation(5), UNDO.
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

// The operation that this one takes back; nullopt if it takes back none.
std::optional<Digest> taken_back_by(const Kinds& kinds, const Operation& operation);

// True if `later` builds on `earlier`: on a version that `earlier` made, or by replacing it. Such an operation keeps
// `earlier` in force. `b` and `a` are their bodies.
bool builds_on(const Kinds& kinds, const Operation& later, const Json& b, const Operation& earlier, const Json& a);

// The operations of a whole settled history that are not in force. The result depends on the set of operations alone,
// so clones with the same operations agree. An undo does not count if somebody who did not know of it has built on the
// undone operation.
OperationSet undone_operations(const Kinds& kinds, OperationStage& history);

bool holds_undo(const Kinds& kinds, OperationStage& operations);

// Whether the content that a recorded operation names is wanted: the operation was not undone, and its kind still keeps
// the content. (A kind does not keep a forgotten name or a released checkpoint.)
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
