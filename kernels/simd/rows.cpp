// This folder's rows of the kernel table, the same for each instruction set. They are data, so none of this code runs
// before table.cpp has checked the CPU.
#include "kernels/simd/rows.h"

#include "kernels/simd/simd.h"
#include "kernels/simd/vector.h"

namespace mlx::kernels::MLX_ISA {

const Kernel kRows[] = {
#define MLX_SIMD(op, file) {Op::op, kBackend, prepare_##file},
#include "kernels/simd/row_list.h"
};
const int kRowCount = sizeof(kRows) / sizeof(*kRows);

}  // namespace mlx::kernels::MLX_ISA
