// mlx import model.
#pragma once

#include "cmd/cli/cli.h"

namespace mlx::cmd {

Command import_model_command();

}  // namespace mlx::cmd
