// See open_repository.h.
#include "registry/sync/open_repository.h"

#include <utility>

#include "registry/sync/fetch_on_demand.h"
#include "registry/versions/domains.h"

namespace mlx::registry {

Repository open_repository(const std::string& start, store::Disk& disk, Pool& pool, Environment environment,
                           const Interruption& interruption, const Kinds& kinds) {
  return Repository(start, disk, pool, std::move(environment), {fetch_missing, destroy_erased_keys}, kinds,
                    interruption);
}

}  // namespace mlx::registry
