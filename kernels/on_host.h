// A kernel of the host for a device that lacks one: its inputs are copied to the host before it and its outputs back
// after it. Used by table.cpp for primitive operations.
#pragma once

#include "kernels/device.h"
#include "kernels/kernel.h"

namespace mlx::kernels {

// `host` is the problem's kernel on the host. It stays a kernel of its backend, so that a profile names where the
// operation ran. Launches of such a kernel wait and cannot be captured. kUsage where it has too many phases.
Prepared prepare_on_host(const Problem& problem, Prepared host, const Device& device);

}  // namespace mlx::kernels
