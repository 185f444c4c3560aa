// Instructions that CUDA C++ has no name for, from section 9.7 of the PTX ISA 9.0, for compute capability 8.0 and
// later: tensor cores (mma.sync), loading matrices from shared memory into their registers (ldmatrix), and copies that
// bypass registers (cp.async). On the host kernels/cuda_emulation does the same.
//
// A warp holds a fragment together; `lane` is threadIdx.x % 32, g = lane / 4, t = lane % 4, and a register of 16-bit
// elements holds two of them, the first in its lower half:
//   A [16 rows, 16 of k]  a[0]: row g, k 2t and 2t+1; a[1]: row g+8; a[2]: row g, k 2t+8 …; a[3]: row g+8, k 2t+8 …
//   B [16 of k, 8 columns]  b[0]: k 2t and 2t+1 of column g; b[1]: k 2t+8 and 2t+9
//   C [16 rows, 8 columns]  c[0], c[1]: row g, columns 2t and 2t+1; c[2], c[3]: row g+8
// and of tf32, f32 whose lower 13 bits do not count, with one element a register:
//   A [16 rows, 8 of k]  a[0]: row g, k t; a[1]: row g+8, k t; a[2]: row g, k t+4; a[3]: row g+8, k t+4
//   B [8 of k, 8 columns]  b[0]: k t of column g; b[1]: k t+4
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/half.h"

// MLX_UNROLL goes before a loop over registers with a fixed count, because registers cannot be indexed at run time. The
// other goes before a loop that rarely runs and should not take registers from others.
#ifdef __CUDACC__
#define MLX_UNROLL _Pragma("unroll")
#define MLX_NO_UNROLL _Pragma("unroll 1")
#else
#define MLX_UNROLL
#define MLX_NO_UNROLL
#endif

namespace mlx::kernels::cuda {

struct FragmentA {
  std::uint32_t a[4];
};
struct FragmentB {
  std::uint32_t b[2];
};
struct FragmentC {
  float c[4];
};

// The type that elements in registers have.
enum class MmaType { kBF16, kF16, kTF32 };

#ifdef __CUDACC__

// c += A · B, summed in f32.
template <MmaType kType>
__device__ inline void mma(FragmentC& c, const FragmentA& a, const FragmentB& b) {
  if constexpr (kType == MmaType::kBF16)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c.c[0]), "+f"(c.c[1]), "+f"(c.c[2]), "+f"(c.c[3])
        : "r"(a.a[0]), "r"(a.a[1]), "r"(a.a[2]), "r"(a.a[3]), "r"(b.b[0]), "r"(b.b[1]));
  else if constexpr (kType == MmaType::kF16)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c.c[0]), "+f"(c.c[1]), "+f"(c.c[2]), "+f"(c.c[3])
        : "r"(a.a[0]), "r"(a.a[1]), "r"(a.a[2]), "r"(a.a[3]), "r"(b.b[0]), "r"(b.b[1]));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c.c[0]), "+f"(c.c[1]), "+f"(c.c[2]), "+f"(c.c[3])
        : "r"(a.a[0]), "r"(a.a[1]), "r"(a.a[2]), "r"(a.a[3]), "r"(b.b[0]), "r"(b.b[1]));
}

__device__ inline std::uint32_t shared_address(const void* shared) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
}

// Four matrices of 8 rows of 16 bytes. Lane i passes the address of row i % 8 of matrix i / 8, 16-byte aligned. out[j]:
// the 32 bits 4t … of row g of matrix j. Transposed: its 16-bit elements in column g of rows 2t and 2t+1.
__device__ inline void load_matrices(std::uint32_t (&out)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(shared_address(row))
               : "memory");
}
__device__ inline void load_matrices_transposed(std::uint32_t (&out)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(shared_address(row))
               : "memory");
}

// Copies 16 bytes to shared memory; both addresses are 16-byte aligned. If not `inside`, writes zeros, and `from` is
// any address of global memory.
__device__ inline void copy_async(void* shared, const void* from, bool inside) {
  const int bytes = inside ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(from), "r"(bytes)
               : "memory");
}
__device__ inline void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Waits until at most kPending groups of this thread's copies are in progress. __syncthreads() makes them visible to
// others.
template <int kPending>
__device__ inline void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Rounds an f32 to tf32: to nearest, ties away from zero.
__device__ inline std::uint32_t tf32_bits(float x) {
  std::uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
}

// Packs two f32 into one register of bf16 or f16 elements, rounded to nearest even.
template <MmaType kType>
__device__ inline std::uint32_t pack_as(float low, float high) {
  static_assert(kType != MmaType::kTF32);
  std::uint32_t bits;
  if constexpr (kType == MmaType::kBF16)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}

// 2^x with a relative error of about 2^-22. Subnormal inputs and results are treated as 0.
__device__ inline float exp2_approximate(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// The block's dynamic shared memory.
__device__ inline unsigned char* block_memory() {
  extern __shared__ __align__(128) unsigned char block_memory_bytes[];
  return block_memory_bytes;
}

#else

}  // namespace mlx::kernels::cuda
#include "kernels/cuda_emulation/ptx.h"
namespace mlx::kernels::cuda {

#endif

}  // namespace mlx::kernels::cuda
