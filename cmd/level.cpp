// The environment's say in kernels.
#include "cmd/level.h"

#include <cstdlib>

namespace mlx::cmd {

kernels::Level chosen_level() {
  const char* name = std::getenv("MLX_KERNELS");
  return kernels::parse_level(name == nullptr ? "" : name);
}

}  // namespace mlx::cmd
