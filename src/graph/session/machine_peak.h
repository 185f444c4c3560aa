// What this machine can do at most, as a profile's measure: measured in a fraction of a second with the kernels that
// are profiled, on as many threads.
#pragma once

#include "base/parallel.h"
#include "kernels/backend.h"

namespace mlx::graph {

struct MachinePeak {
  double flops = 0;  // a second: the fastest of some large f32 matrix products
  double bytes = 0;  // a second, read and written: a copy between two buffers that no cache holds
};

MachinePeak measure_peak(kernels::Backend backend, Pool& pool);

}  // namespace mlx::graph
