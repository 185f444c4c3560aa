// The operations that a kernel may compute, from the rows of op_list.h. The graph's nodes carry these.
#pragma once

#include <cstdint>

namespace mlx::kernels {

enum class Op : std::uint16_t {
#define MLX_OP(op, ...) op,
#include "kernels/op_list.h"
  kCount
};

// The row of an operation.
struct OpRow {
  const char* name;  // "linear", "conv2d_backward_data" …; stored in model.json, so it never changes
  int required_inputs, max_inputs;
  bool primitive, view, collective;  // a device may lack it; it is no work; ranks do it together
};
const OpRow& row_of(Op op);
const char* name_of(Op op);  // "unknown" for kCount

}  // namespace mlx::kernels
