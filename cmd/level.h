// Which kernels the numeric commands use: those of --device; on the CPU what MLX_KERNELS names, or the best that the
// machine has.
#pragma once

#include <string>

#include "base/progress.h"
#include "cmd/cli/cli.h"
#include "kernels/table.h"

namespace mlx::cmd {

// On the CPU. kUsage / kMissing as kernels::parse_level.
kernels::Level chosen_level();
// The same for a computation: with a warning where oneDNN's kernels would be chosen and lib/mlx is not beside the
// executable, which may have been copied without it.
kernels::Level chosen_level(Progress& progress);
// `device`: "cpu" (also ""), "cuda", or "auto": a GPU where there is one, with a warning where something is wrong with
// what there is. kUsage / kMissing as kernels::parse_level and kernels::cuda_device.
kernels::Level chosen_level(const std::string& device, Progress& progress);
Option device_option(std::string& device);

}  // namespace mlx::cmd
