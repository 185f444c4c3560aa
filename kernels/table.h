// Which kernel serves a problem.
#pragma once

#include "kernels/backend.h"
#include "kernels/kernel.h"

namespace mlx::kernels {

// The best kernel of the backend, or of those below it; kUsage naming operation, dtypes and sizes where none serves it.
// Primitive operations that a device has no kernel for run on the host (on_host.h).
Prepared prepare(const Problem& problem, const Backend& backend);

}  // namespace mlx::kernels
