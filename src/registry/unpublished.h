// What of this clone's history a remote does not have, and whether others would take it: asked before a push changes
// anything there.
#pragma once

#include <functional>
#include <vector>

#include "registry/repository.h"
#include "store/remote.h"

namespace mlx::registry {

bool knows_all(const std::vector<Operation>& all, const std::vector<Digest>& heads);
// Operations of `all` that none of these heads reaches; heads that are not among `all` are passed over.
std::vector<Operation> beyond(const std::vector<Operation>& all, const std::vector<Digest>& remote_heads);

// Operations of `all` (in the fixed order) that these heads of the remote reach and it does not hold: it has lost them,
// and nobody can clone it. The `newest` are asked about, and where one of them is lost all are.
std::vector<Operation> lost_operations(store::Remote& remote, const std::vector<Operation>& all,
                                       const std::vector<Digest>& heads, std::size_t newest);

// Called with the heads that a remote has and this clone knows, before the first byte of it is changed. What it throws
// leaves the remote as it was.
using BeforeSending = std::function<void(const std::vector<Digest>& heads)>;
// kRefused where [people] does not vouch for what such a remote lacks (trust.h). Empty where nobody is declared.
BeforeSending judge_before_sending(Repository& repository);

}  // namespace mlx::registry
