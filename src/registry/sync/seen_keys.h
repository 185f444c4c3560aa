// The key revision that this clone last saw at each encrypted remote. Whoever controls a remote can restore an old
// revision; only a clone that has seen a later one notices. One small file per remote in .mlx/seen; if it is lost, only
// this protection is. Used by key_sync.cpp.
#pragma once

#include <optional>

#include "base/hash.h"
#include "registry/sync/sync.h"

namespace mlx::registry {

std::optional<Digest> seen_keys(Repository& repository, const RemoteConfig& remote);  // the revision's link
void remember_keys(Repository& repository, const RemoteConfig& remote, const Digest& link);
std::optional<Digest> parse_seen_keys(std::string text);  // parses such a file; nullopt if it is damaged

}  // namespace mlx::registry
