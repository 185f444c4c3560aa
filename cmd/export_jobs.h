// Trainings as jobs of a cluster: the subcommands `mlx export slurm` and `mlx export mpijob`.
#pragma once

#include "cmd/cli/cli.h"

namespace mlx::cmd {

Command export_slurm();
Command export_mpijob();

}  // namespace mlx::cmd
