// What of this clone's history a remote does not have, and whether others would take it: asked before a push changes
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

// This clone's heads, and what they reach and none of `remote_heads` does; those that are not recorded are passed over.
struct Beyond {
  std::vector<Digest> heads;
  OperationStage operations;  // settled, in the order that they have in the whole history
};
// Afterwards the store sees what they name, also where another process has made it since the store was opened.
Beyond beyond(Repository& repository, const std::vector<Digest>& remote_heads);

// Operations of this clone that these heads of the remote reach and it does not hold: it has lost them, and nobody can
// clone it. The `newest` are asked about, and where one of them is lost all are.
std::vector<Digest> lost_operations(Repository& repository, store::Remote& remote, const std::vector<Digest>& heads,
                                    std::size_t newest = std::numeric_limits<std::size_t>::max());

// Called with the heads that a remote has and this clone knows, before the first byte of it is changed. What it throws
// leaves the remote as it was.
using BeforeSending = std::function<void(const std::vector<Digest>& heads)>;
// kRefused where [people] does not vouch for what such a remote lacks (trust.h). Empty where nobody is declared.
BeforeSending judge_before_sending(Repository& repository);

}  // namespace mlx::registry
