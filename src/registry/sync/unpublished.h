// The part of this clone's history that a remote lacks, and whether others would accept it. Asked before a push changes
// anything there.
#pragma once

#include <functional>
#include <limits>
#include <vector>

#include "registry/operations/operation_stage.h"
#include "registry/repository.h"
#include "store/remote/remote.h"

namespace mlx::registry {

bool knows_all(Repository& repository, const std::vector<Digest>& heads);

// This clone's heads, and the operations that they reach and none of `remote_heads` does. Heads that are not recorded
// here are ignored.
struct Beyond {
  std::vector<Digest> heads;
  OperationStage operations;  // settled, in the order of the whole history
};
// Afterwards the store sees the objects that they name, even if another process stored them after the store was opened.
Beyond beyond(Repository& repository, const std::vector<Digest>& remote_heads);

// Operations of this clone that these heads of the remote reach but the remote has lost; nobody can clone it. Checks
// the `newest` first, and all of them if one of those is lost.
std::vector<Digest> lost_operations(Repository& repository, store::Remote& remote, const std::vector<Digest>& heads,
                                    std::size_t newest = std::numeric_limits<std::size_t>::max());

// Called with the heads that the remote has and this clone knows, before anything on the remote changes. If it throws,
// the remote is unchanged.
using BeforeSending = std::function<void(const std::vector<Digest>& heads)>;
// Returns a check that throws kRefused if [people] does not vouch for what such a remote lacks (trust.h). Empty if
// nobody is declared.
BeforeSending judge_before_sending(Repository& repository);

}  // namespace mlx::registry
