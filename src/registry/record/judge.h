// Judges operations by [people] of mlx.toml (keys/trust.h), when this repository records, accepts or publishes them.
// Operations from elsewhere are judged before anything of them is recorded.
#pragma once

#include <string>
#include <vector>

#include "registry/keys/trust.h"
#include "registry/operations/operation_stage.h"
#include "registry/repository.h"

namespace mlx::registry {

// Judges an operation before this clone records it. Throws kRefused with who lacks which right, and the remedy. A run
// that was allowed to start may end, even if [people] has changed meanwhile; its end is judged when it is published.
// Reads only the operation's kind, body and actor.
void require_may_record(Repository& repository, const Operation& operation);
void require_may_record(Repository& repository, const std::string& kind);
bool may_record(Repository& repository, const std::string& kind);

// Throws kRefused, with who and what, if one of them does not count here. If this clone had no operations at all,
// returns the keys that it met, and accepted, for the first time.
std::vector<Digest> require_vouched(Repository& repository, OperationStage& arriving);
// The same for operations that are about to be published: nobody else would accept what [people] does not vouch for.
void require_publishable(Repository& repository, OperationStage& leaving);

}  // namespace mlx::registry
