// Sixteen lanes: the types and functions that this folder's kernels are written with. vector_avx512.h implements them
// with one register each, vector_avx2.h with two. Every function gives the same bits in both (only the bits of a NaN
// may differ), so every kernel does. Internal linkage throughout (simd.h says why).
//
//   Floats, Ints   sixteen f32, sixteen s32; Doubles: sixteen f64; Bytes: 64 of them, signed or unsigned
//   Mask           a mask of sixteen lanes; All is the mask of every lane, known at compile time
//
//   zeros(), broadcast(x), integers(i)
//   load(p), load(p, mask), store(p, x[, mask])    lanes outside a mask are 0, their memory is not touched
//   + - * / fma(a, b, c) fnma fms sqrt abs         a b + c, c - a b, a b - c; each rounded once
//   min(a, b), max(a, b)                           b if either is NaN
//   round(x)                                       to nearest even
//   scale(x, n)                                    x 2^n, rounded once; n an integer in ±250; x in [1/2, 2], or NaN
//   > >= < <= ==, ordered(x)                       masks: false for NaN; true if not NaN
//   keep(mask, x), select(mask, a, b)              lanes outside the mask are 0, or from b
//   lane_0(x)                                      lane 0
//   lane_sum(x), lane_max(x)                       by halves: lanes i and i + 8, then i and i + 4 …
//   lanes(n), lanes_from(n)                        the first n lanes; all but the first n; any n
//   negative(i), shifted_right<n>(i), multiply     mask of negative lanes; unsigned shift; both halves of unsigned
//   products to_floats(i), to_integers(x), to_doubles(x)    to nearest even; the least integer if x does not fit
//   transpose(rows), transpose_fours(rows, out)    16 x 16; 4 x 4 in each run of four lanes
//   load, store of BF16; load of F16               widened; rounded to nearest even, NaN stays NaN
//   load_bytes(p, n), store_bytes(p, x, n)         n bytes, or 64
//   load_narrow<Signed>(p, n), store_narrow        n bytes, or 16, as Ints; stores the low bytes
//   dot(terms, weights, sum)                       sum plus the products of the kTerms Terms and Weights in each lane,
//                                                  exact: four bytes if the instruction set has such sums, else two
//                                                  16-bit numbers
//   dot_low(x, weights, sum)                       the same for only the 16-bit number in each lane's lower half
//   dot_bytes(w, x, sum)                           sum plus the products of the four bytes in each lane, exact: of w
//                                                  -127…127 with kByteOffset added, or 0…15; of x -127…127
//   copy_terms<Signed>(p, to, n)                   n bytes as Terms; if Terms are bytes, signed ones have 128 added
#pragma once

#include <immintrin.h>
#include <math.h>

#include <cstdint>

#include "kernels/half.h"

namespace mlx::kernels::MLX_ISA {
namespace {

struct All {};

using ::sqrt;  // of a double, beside the one for Floats

// The end of every sum and maximum: eight, four, then two lanes.
inline float sum_of_eight(__m256 x) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline float largest_of_eight(__m256 x) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
inline double sum_of_four(__m256d x) {
  const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

}  // namespace
}  // namespace mlx::kernels::MLX_ISA

#ifdef __AVX512F__
#include "kernels/simd/vector_avx512.h"
#else
#include "kernels/simd/vector_avx2.h"
#endif

namespace mlx::kernels::MLX_ISA {
namespace {

// All costs no masking.
inline Floats load(const float* from, All) {
  return load(from);
}
inline Ints load(const std::int32_t* from, All) {
  return load(from);
}
inline Floats load(const F16* from, All) {
  return load(from, every());
}
inline void store(F16* to, Floats x, All) {
  store(to, x, every());
}
inline Floats load(const BF16* from, All) {
  return load(from, every());
}
inline void store(BF16* to, Floats x, All) {
  store(to, x, every());
}
inline Doubles load(const double* from, All) {
  return load(from);
}
inline void store(float* to, Floats x, All) {
  store(to, x);
}
inline void store(std::int32_t* to, Ints x, All) {
  store(to, x);
}
inline void store(double* to, Doubles x, All) {
  store(to, x);
}
inline Floats keep(All, Floats x) {
  return x;
}
inline Floats select(All, Floats a, Floats) {
  return a;
}
inline Mask operator&(All, Mask m) {
  return m;
}

}  // namespace
}  // namespace mlx::kernels::MLX_ISA
