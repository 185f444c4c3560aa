// What a remote's heads lead to: brought here, judged, and taken in. Nothing that arrives is believed before it is
// verified. Used by push and fetch (sync.cpp).
#pragma once

#include <vector>

#include "base/error.h"
#include "registry/operations/operation_stage.h"
#include "registry/sync/sync.h"
#include "store/remote/remote.h"

namespace mlx::registry {

Error pull_first(const RemoteConfig& remote);

// Everything that the remote's heads reach and this clone does not have, with whole ancestry, settled. Received into a
// store of its own, so that nothing unverified ever stands among this clone's objects.
OperationStage receive_operations(Repository& repository, store::Remote& remote, const std::vector<Digest>& heads,
                                  Progress& progress);

// A remote's heads; none where they are damaged: a repair mends what it can, and what it cannot is said when they are
// read next.
std::vector<Digest> readable_heads(store::Remote& remote);

// A remote's heads as a push finds them.
struct HeadsThere {
  std::vector<Digest> known;  // operations of this clone
  std::vector<Digest> kept;   // of others: what they lead to could be pulled
  bool left_out = false;      // and some could not
};

// What the remote's heads reach beyond this clone's history has to be pulled first. With `repair` heads that lead to
// what this clone refuses, which belongs to another history, or which it cannot apply, are no reason to stop: they are
// left out.
HeadsThere judge_heads(Repository& repository, store::Remote& remote, const RemoteConfig& config,
                       const std::vector<Digest>& heads, bool repair, Progress& progress);

// An operation that cannot be read or applied stands in everybody's way: its error with what to do.
Error with_way_round(const Error& error, const RemoteConfig& config);

}  // namespace mlx::registry
