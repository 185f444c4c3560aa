// The tables of meta.db, version by version.
#pragma once

#include <vector>

#include "store/sqlite.h"

namespace mlx::registry {

extern const std::vector<store::Migration> kMigrations;

}  // namespace mlx::registry
