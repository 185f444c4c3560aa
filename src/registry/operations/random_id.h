// Random names for clones (actors) and runs.
#pragma once

#include <string>

namespace mlx::registry {

std::string random_id();  // 16 lower-case hex digits from the kernel's generator

}  // namespace mlx::registry
