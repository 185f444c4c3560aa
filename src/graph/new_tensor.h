// A tensor of zeros. Used by what makes weights and inputs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace mlx::graph {

inline Tensor new_tensor(DType dtype, const std::vector<std::int64_t>& dims) {
  Tensor out;
  out.shape.dtype = dtype;
  out.shape.rank = static_cast<int>(dims.size());
  std::ranges::copy(dims, out.shape.dims.begin());
  out.data.resize(out.shape.bytes());
  return out;
}

}  // namespace mlx::graph
