// Which kernels the numeric commands use: those of --device; on the CPU what MLX_KERNELS names, or the best that the
// machine has.
#pragma once

#include <string>

#include "base/environment.h"
#include "cmd/cli/cli.h"
#include "kernels/table.h"

namespace mlx::cmd {

// On the CPU. kUsage / kMissing as kernels::parse_level.
kernels::Level chosen_level(const Environment& environment);
// The same for a computation: it warns if oneDNN would be the default and cannot be used, as when the executable was
// copied without lib/mlx.
kernels::Level chosen_level(Context& context);
// `device`: "cpu" (also ""), "cuda", or "auto": a GPU if there is one. "auto" warns if there is a GPU that cannot be
// used. kUsage / kMissing as kernels::parse_level and kernels::cuda_device.
kernels::Level chosen_level(Context& context, const std::string& device);
Option device_option(std::string& device);

}  // namespace mlx::cmd
