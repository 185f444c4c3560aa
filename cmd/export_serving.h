// Servers as other programs keep them running: the subcommands `mlx export systemd`, `compose` and `kserve`.
#pragma once

#include "cmd/cli/cli.h"

namespace mlx::cmd {

Command export_systemd();
Command export_compose();
Command export_kserve();

}  // namespace mlx::cmd
