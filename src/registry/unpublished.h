// What of this clone's history a remote does not have, and whether others would take it: asked before a push changes
// anything there.
#pragma once

#include <functional>
#include <vector>

#include "registry/repository.h"

namespace mlx::registry {

bool knows_all(const std::vector<Operation>& all, const std::vector<Digest>& heads);
// Operations of `all` that none of these heads reaches; heads that are not among `all` are passed over.
std::vector<Operation> beyond(const std::vector<Operation>& all, const std::vector<Digest>& remote_heads);

// Called with the heads that a remote has and this clone knows, before the first byte of it is changed. What it throws
// leaves the remote as it was.
using BeforeSending = std::function<void(const std::vector<Digest>& heads)>;
// kRefused where [people] does not vouch for what such a remote lacks (trust.h). Empty where nobody is declared.
BeforeSending judge_before_sending(Repository& repository);

}  // namespace mlx::registry
