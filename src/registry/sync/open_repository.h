// Opens a repository with everything that it needs from layers above: missing objects are fetched on demand, and keys
// that arriving operations erased are destroyed. Commands open repositories only through this.
#pragma once

#include <string>

#include "base/environment.h"
#include "registry/operations/kinds.h"
#include "registry/repository.h"

namespace mlx::registry {

// See Repository's constructor. A Repository cannot be moved: `Repository r = open_repository(…)` and `new
// Repository(open_repository(…))` construct it in place.
Repository open_repository(const std::string& start, store::Disk& disk, Pool& pool, Environment environment = {},
                           const Interruption& interruption = Interruption::never(),
                           const Kinds& kinds = known_kinds());

}  // namespace mlx::registry
