// The rows that the hand-written AVX2 and AVX-512 backends give to the kernel table: those of kernels/simd, and what
// AVX-512 alone can do. Compiled for any CPU: table.cpp asks before it uses them.
#include "kernels/avx512/avx512.h"
#include "kernels/simd/rows.h"
#include "kernels/table.h"

namespace mlx::kernels {

std::vector<Kernel> avx2_kernels() {
  return {avx2::kRows, avx2::kRows + avx2::kRowCount};
}

std::vector<Kernel> avx512_kernels() {
  std::vector<Kernel> rows{{Op::kConv2d, Backend::kAvx512, avx512::prepare_conv_first_int8}};
  rows.insert(rows.end(), avx512::kRows, avx512::kRows + avx512::kRowCount);
  for (const Op op : {Op::kLinear, Op::kLinearBackwardData, Op::kLinearBackwardWeights})
    rows.push_back({op, Backend::kAvx512, avx512::prepare_linear_bf16});
  return rows;
}

}  // namespace mlx::kernels
