// Which revision of its keys this clone has last seen at each encrypted remote: whoever holds a remote can put an old
// revision back, which only who has seen a later one notices. Kept in .mlx/seen, a small file a remote; losing it loses
// the notice and nothing else. Used by key_sync.cpp.
#pragma once

#include <optional>

#include "base/hash.h"
#include "registry/sync/sync.h"

namespace mlx::registry {

std::optional<Digest> seen_keys(Repository& repository, const RemoteConfig& remote);  // the revision's link
void remember_keys(Repository& repository, const RemoteConfig& remote, const Digest& link);
std::optional<Digest> parse_seen_keys(std::string text);  // of such a file; nullopt where it is damaged

}  // namespace mlx::registry
