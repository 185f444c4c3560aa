// Which kernels the numeric commands use: those of --device; on the CPU what MLX_KERNELS names, or the best that the
// machine has.
#pragma once

#include <string>

#include "base/environment.h"
#include "cmd/cli/cli.h"
#include "kernels/backend.h"

namespace mlx::cmd {

// On the CPU. kUsage / kMissing as kernels::parse_backend.
kernels::Backend chosen_backend(const Environment& environment);
// The same for a computation: it warns if better kernels would be the default and cannot be used, as when the
// executable was copied without lib/mlx.
kernels::Backend chosen_backend(Context& context);
// `device`: "cpu" (also ""), the word of another device, or "auto": a GPU if there is one. "auto" warns if there is a
// GPU that cannot be used. kUsage / kMissing as kernels::parse_backend and kernels::backend_on.
kernels::Backend chosen_backend(Context& context, const std::string& device);
Option device_option(std::string& device);

}  // namespace mlx::cmd
