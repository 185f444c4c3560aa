// Runs a host kernel for a device that lacks one. Its inputs are copied to the host before it, and its outputs back
// after it. Used by table.cpp for primitive operations.
#pragma once

#include "kernels/device.h"
#include "kernels/kernel.h"

namespace mlx::kernels {

// `host` is the host's kernel for the problem. It keeps its backend's name, so that a profile shows where the operation
// ran. Launches of such a kernel wait and cannot be captured. Throws kUsage if it has too many phases.
Prepared prepare_on_host(const Problem& problem, Prepared host, const Device& device);

}  // namespace mlx::kernels
