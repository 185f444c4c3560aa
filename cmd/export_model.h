// Language models for other programs: the subcommand `mlx export model`.
#pragma once

#include "cmd/cli/cli.h"

namespace mlx::cmd {

Command export_model_command();

}  // namespace mlx::cmd
