// Which kernels the numeric commands use: MLX_KERNELS, or the best that the machine has.
#pragma once

#include "kernels/table.h"

namespace mlx::cmd {

kernels::Level chosen_level();  // kUsage / kMissing as kernels::parse_level

}  // namespace mlx::cmd
