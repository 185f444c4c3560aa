// What the ranks of a training wrote to stderr, as it is kept with the run.
#pragma once

#include <string>

#include "base/json_fwd.h"
#include "cmd/cli/cli.h"
#include "registry/repository.h"

namespace mlx::cmd {

// `rank`: a number, "mpirun", or "all". Prints each log that is kept of it, under its name if there are several.
// kUsage for anything else, kNotFound if nothing is kept of it.
int show_rank_log(const std::string& run, const std::string& rank, Context& context);

// Whose logs a run has, for `mlx show run:ID`.
void print_log_list(Context& context, const std::string& run);
Json logs_json(registry::Repository& repository, const std::string& run);

}  // namespace mlx::cmd
