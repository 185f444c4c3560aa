// The heads that this clone last saw at each remote. Whoever controls a remote can restore an old state of it; a clone
// that has seen more notices. One small file per remote in .mlx/seen; if it is lost, only this protection is.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "registry/operations/operation_stage.h"
#include "registry/repository.h"
#include "registry/sync/sync.h"

namespace mlx::registry {

// Operations that were heads of the remote and that its present heads do not reach; empty if nothing was rolled back.
// `received`: what the heads reach and this clone lacks, if anything. Ignores heads that were seen but never recorded
// (an interrupted fetch).
std::vector<Digest> rolled_back(Repository& repository, const RemoteConfig& remote, const std::vector<Digest>& heads,
                                OperationStage* received);
// A head that was seen at a remote which is empty now; nullopt if this clone has seen none.
std::optional<Digest> seen_head(Repository& repository, const RemoteConfig& remote);
// One line for each unreadable file in .mlx/seen. With `mend` it is removed; only the protection against a rollback is
// lost.
std::vector<std::string> damaged_seen(Repository& repository, bool mend);
std::string rollback_text(const RemoteConfig& remote, const Digest& lost);  // `lost`: one of the lost heads
// Call after a fetch or a push. Heads that were seen and have disappeared are remembered until they are back.
void remember_heads(Repository& repository, const RemoteConfig& remote, const std::vector<Digest>& heads);

}  // namespace mlx::registry
