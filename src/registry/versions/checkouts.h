// The version that each dataset's folder was last written from (by checkout and pull) or recorded as (by add). status
// compares it with the pointer after a `git switch`.
//
// Kept in .mlx/cache.db, for this clone alone, and disposable: no command depends on it, and a missing or unreadable
// entry counts as unknown.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/hash.h"
#include "registry/repository.h"

namespace mlx::registry {

std::map<std::string, Digest> checked_out(Repository& repository);  // by artifact; only what is known
std::optional<Digest> checked_out_as(Repository& repository, const std::string& artifact);
// nullopt: the folder is gone, or no longer matches any version.
void note_checked_out(Repository& repository, const std::string& artifact, const std::optional<Digest>& digest);

}  // namespace mlx::registry
