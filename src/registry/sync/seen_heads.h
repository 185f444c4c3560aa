// The heads that this clone has last seen at each remote: whoever holds a remote can put back an old state of it, which
// clones that have seen more notice. Kept in .mlx/seen, a small file a remote; losing it loses the notice and nothing
// else.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "registry/operations/operation_stage.h"
#include "registry/repository.h"
#include "registry/sync/sync.h"

namespace mlx::registry {

// Operations that were heads of the remote and that its heads now do not reach; empty where nothing went back.
// `received`: what the heads reach and this clone does not have, where there is any. What was seen and never recorded
// (an interrupted fetch) is not asked about.
std::vector<Digest> rolled_back(Repository& repository, const RemoteConfig& remote, const std::vector<Digest>& heads,
                                OperationStage* received);
// One that was seen there, for a remote that is empty now; nullopt where this clone has seen none.
std::optional<Digest> seen_head(Repository& repository, const RemoteConfig& remote);
// What stands in .mlx/seen and cannot be read, as a line each; with `mend` it goes: only notices are lost with it.
std::vector<std::string> damaged_seen(Repository& repository, bool mend);
std::string rollback_text(const RemoteConfig& remote, const Digest& lost);  // with one that was lost
// After a fetch or a push. What was seen and is gone is kept in mind until it is there again.
void remember_heads(Repository& repository, const RemoteConfig& remote, const std::vector<Digest>& heads);

}  // namespace mlx::registry
