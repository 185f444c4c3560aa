// The prepare functions of the kernels that are compiled once for AVX-512 and once for AVX2, one file a family.
// MLX_ISA, avx512 or avx2, names their namespace. Used by the files of this folder and of kernels/avx512.
//
// These files hold raw pointers and functions of internal linkage only: an inline function or template that other files
// share could be emitted here with AVX-512 code and chosen by the linker for all (tests/house checks the symbols).
// The bits of f32 results do not depend on the instruction set: each element accumulates in one order, sums over lanes
// are one tree of sixteen partial sums (vector.h), multiply-adds are written out, never contracted by the compiler.
// Only how many elements are computed side by side differs.
#pragma once

#include "kernels/plan.h"

namespace mlx::kernels::MLX_ISA {

#define MLX_SIMD(op, file) bool prepare_##file(const Problem& problem, Plan& plan);
#include "kernels/simd/row_list.h"

}  // namespace mlx::kernels::MLX_ISA
