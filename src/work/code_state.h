// The state of the user's code, which every run records.
#pragma once

#include <string>

#include "registry/repository.h"

namespace mlx::work {

// Canonical JSON: git head, branch, dirty, and the digest of the uncommitted diff, which is stored as a blob. "{}"
// outside of git.
std::string code_state(registry::Repository& repository);

}  // namespace mlx::work
