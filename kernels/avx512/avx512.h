// The prepare functions of kernels that need more than kernels/simd has: VNNI (dot products of bytes) or products of
// bf16. They follow the rules of kernels/simd/simd.h. Used by kernels/avx512 and by simd_rows.cpp, which is compiled
// for any CPU.
#pragma once

#include "kernels/plan.h"

namespace mlx::kernels::avx512 {

// Convolution of up to four input channels, u8|s8.
bool prepare_conv_first_int8(const Problem& problem, Plan& plan);
// bf16 times f32 weights, which are rounded to bf16; the result is f32. Forward and both backwards.
bool prepare_linear_bf16(const Problem& problem, Plan& plan);

}  // namespace mlx::kernels::avx512
