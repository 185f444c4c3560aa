// Receives the operations that a remote's heads reach, and judges them. Nothing that arrives is trusted before it is
// verified. Used by push and fetch (sync.cpp).
#pragma once

#include <vector>

#include "base/error.h"
#include "registry/operations/operation_stage.h"
#include "registry/sync/sync.h"
#include "store/remote/remote.h"

namespace mlx::registry {

Error pull_first(const RemoteConfig& remote);

// All operations that the remote's heads reach and this clone lacks, with their whole ancestry, settled. They are
// received into a separate store, so that nothing unverified is ever among this clone's objects.
OperationStage receive_operations(Repository& repository, store::Remote& remote, const std::vector<Digest>& heads,
                                  Progress& progress);

// A remote's heads; none if they are damaged. A repair mends what it can; what it cannot mend is reported at the next
// read.
std::vector<Digest> readable_heads(store::Remote& remote);

// A remote's heads, as a push classifies them.
struct HeadsThere {
  std::vector<Digest> known;  // operations that this clone has
  std::vector<Digest> kept;   // heads of others that could be pulled
  bool left_out = false;      // true if some could not
};

// Judges the remote's heads before a push. What they reach beyond this clone's history must be pulled first. With
// `repair` a head that leads to operations which this clone refuses, cannot apply, or which belong to another history
// does not stop the push, but is left out.
HeadsThere judge_heads(Repository& repository, store::Remote& remote, const RemoteConfig& config,
                       const std::vector<Digest>& heads, bool repair, Progress& progress);

// Adds a hint to the error of an operation that cannot be read or applied: such an operation blocks everybody.
Error with_way_round(const Error& error, const RemoteConfig& config);

}  // namespace mlx::registry
