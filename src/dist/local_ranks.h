// Ranks that are threads of one process, for tests.
#pragma once

#include <memory>
#include <vector>

#include "dist/communicator.h"

namespace mlx::dist {

// One communicator for each rank. When a rank's is destroyed, transfers of others that still need it fail.
std::vector<std::unique_ptr<Communicator>> local_ranks(int count);

}  // namespace mlx::dist
