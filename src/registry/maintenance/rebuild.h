// Rebuilds meta.db from operations alone. Used by `mlx fsck --rebuild`.
#pragma once

#include <string>

#include "base/parallel.h"
#include "base/progress.h"
#include "registry/operations/kinds.h"
#include "store/disk.h"
#include "store/pack/store.h"

namespace mlx::registry {

// Drops every projected table and applies all operations again, from journal and packs. Works even if meta.db is
// missing or is not a database.
void rebuild_database(const std::string& root, store::Disk& disk, Pool& pool, Progress& progress,
                      const store::StoreOptions& options = {}, const Kinds& kinds = known_kinds());

}  // namespace mlx::registry
