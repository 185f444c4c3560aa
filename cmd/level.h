// Which kernels the numeric commands use: those of --device; on the CPU what MLX_KERNELS names, or the best that the
// machine has.
#pragma once

#include <string>

#include "cmd/cli.h"
#include "kernels/table.h"

namespace mlx::cmd {

// "cpu" (also ""), "cuda", or "auto": a GPU where there is one. kUsage / kMissing as kernels::parse_level and
// kernels::cuda_device.
kernels::Level chosen_level(const std::string& device = {});
Option device_option(std::string& device);

}  // namespace mlx::cmd
