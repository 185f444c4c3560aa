// What a training's ranks did, from the summary of its run. Used by `mlx train` and `mlx show`.
#pragma once

#include <string>

#include "base/json_fwd.h"
#include "cmd/cli/cli.h"
#include "registry/versions/runs.h"

namespace mlx::cmd {

// One line; "" for a training on one rank.
std::string ranks_text(const Json& summary);
// A row for each rank; nothing for other runs.
void print_ranks(Context& context, const registry::Run& run);

}  // namespace mlx::cmd
