// The prepare functions of kernels that are compiled twice, for AVX-512 and for AVX2; one file for each family.
// MLX_ISA, avx512 or avx2, names their namespace. Used by the files of this folder and of kernels/avx512.
//
// These files contain only raw pointers and functions with internal linkage. An inline function or template shared with
// other files could be emitted here with AVX-512 code, and the linker could choose that copy for all (tests/house
// checks the symbols). The bits of f32 results do not depend on the instruction set: each element accumulates in one
// order, sums over lanes use one tree of sixteen partial sums (vector.h), and multiply-adds are explicit, never
// contracted by the compiler. Only the number of elements computed side by side differs.
#pragma once

#include "kernels/plan.h"

namespace mlx::kernels::MLX_ISA {

#define MLX_SIMD(op, file) bool prepare_##file(const Problem& problem, Plan& plan);
#include "kernels/simd/row_list.h"

}  // namespace mlx::kernels::MLX_ISA
