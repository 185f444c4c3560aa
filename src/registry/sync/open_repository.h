// Opens a repository with all that it needs of the floors above it: objects that it lacks are fetched on demand, and
// keys that arriving operations erased are destroyed. The one way in for commands.
#pragma once

#include <string>

#include "base/environment.h"
#include "registry/operations/kinds.h"
#include "registry/repository.h"

namespace mlx::registry {

// See Repository's constructor. It cannot be moved: `Repository r = open_repository(…)` makes it in place, and so does
// `new Repository(open_repository(…))`.
Repository open_repository(const std::string& start, store::Disk& disk, Pool& pool, Environment environment = {},
                           const Interruption& interruption = Interruption::never(),
                           const Kinds& kinds = known_kinds());

}  // namespace mlx::registry
