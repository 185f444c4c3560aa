// Which version each dataset's folder was last made as: by checkout and pull, or by add, which took it as it stood.
// What status compares with the pointer after a `git switch`.
//
// Kept in .mlx/cache.db, for this clone alone, and disposable: where nothing is known nothing is claimed, and no
// command needs it to do its work. What cannot be read or written counts as unknown.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/hash.h"
#include "registry/repository.h"

namespace mlx::registry {

std::map<std::string, Digest> checked_out(Repository& repository);  // by artifact; only what is known
std::optional<Digest> checked_out_as(Repository& repository, const std::string& artifact);
// nullopt: the folder is gone, or no longer any version's.
void note_checked_out(Repository& repository, const std::string& artifact, const std::optional<Digest>& digest);

}  // namespace mlx::registry
