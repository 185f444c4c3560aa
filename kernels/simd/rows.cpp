// The rows that this folder gives to the kernel table, the same for each instruction set that it is compiled for. They
// are data, so that none of this code runs before backend.cpp has asked the CPU.
#include "kernels/simd/rows.h"

#include "kernels/simd/simd.h"
#include "kernels/simd/vector.h"

namespace mlx::kernels::MLX_ISA {

const Kernel kRows[] = {
#define MLX_SIMD(op, file) {Op::op, prepare_##file},
#include "kernels/simd/row_list.h"
};
const int kRowCount = sizeof(kRows) / sizeof(*kRows);

}  // namespace mlx::kernels::MLX_ISA
