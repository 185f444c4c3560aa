// Kernel-table rows of linear and its gradients; see op_list.h for the tensors.
#pragma once

#include "kernels/kernel.h"

namespace mlx::kernels::onednn {

extern const Kernel kLinearKernel;                 // f32, bf16, and u8|s8 × s8 → f32|u8|s8
extern const Kernel kLinearBackwardDataKernel;     // f32, bf16
extern const Kernel kLinearBackwardWeightsKernel;  // f32, bf16

}  // namespace mlx::kernels::onednn
