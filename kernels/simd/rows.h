// The rows of kernels/simd, compiled for each instruction set. Used by simd_rows.cpp, which is compiled for any CPU.
#pragma once

#include "kernels/kernel.h"

namespace mlx::kernels {

namespace avx512 {
extern const Kernel kRows[];
extern const int kRowCount;
}  // namespace avx512

namespace avx2 {
extern const Kernel kRows[];
extern const int kRowCount;
}  // namespace avx2

}  // namespace mlx::kernels
