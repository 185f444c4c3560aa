// The series of one metric of a run, for `mlx show run:ID --metric NAME`.
#pragma once

#include <string>

#include "cmd/cli/cli.h"

namespace mlx::cmd {

// One line a value: step and value, after a header and separated by a comma with `csv`. kNotFound where the run has no
// such metric, naming those that it has.
int show_metric(const std::string& run, const std::string& metric, bool csv, Context& context);

}  // namespace mlx::cmd
