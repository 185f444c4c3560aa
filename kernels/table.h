// Chooses the kernel for a problem.
#pragma once

#include "kernels/backend.h"
#include "kernels/kernel.h"

namespace mlx::kernels {

// The best kernel of the backend, or of those below it. Throws kUsage, naming operation, dtypes and sizes, if none
// serves it. Primitive operations without a kernel on the device run on the host (on_host.h).
Prepared prepare(const Problem& problem, const Backend& backend);

}  // namespace mlx::kernels
