// What the loops of kernels/avx512 share: tails, exp, gelu, channel blocks. Internal linkage throughout (avx512.h says
// why); included by files that are compiled for AVX-512 only.
#pragma once

#include <immintrin.h>

#include "kernels/avx512/avx512.h"

// Before a loop over accumulators: unrolled whole, or gcc keeps the array of them in memory.
#ifdef __clang__
#define MLX_UNROLL _Pragma("unroll")
#else
#define MLX_UNROLL _Pragma("GCC unroll 16")
#endif

namespace mlx::kernels::avx512 {

static inline const State* state_of(const void* state) {
  return static_cast<const State*>(state);
}

// The first `left` of 16 lanes, all where there are at least 16.
static inline __mmask16 lanes(std::int64_t left) {
  return left >= 16 ? __mmask16{0xffff} : static_cast<__mmask16>((1u << left) - 1u);
}

// e^x to 1.5 ulp by reduction to |r| <= ln2/2 and the Taylor polynomial of degree 7. 0 below -104, inf above 89, NaN
// stays.
static inline __m512 exp16(__m512 x) {
  x = _mm512_min_ps(_mm512_set1_ps(89.0f), _mm512_max_ps(_mm512_set1_ps(-105.0f), x));  // second operand: NaN passes
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), 8);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693145752f), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(1.42860677e-6f), r);
  __m512 p = _mm512_set1_ps(1.0f / 5040.0f);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 720.0f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 120.0f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 24.0f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 6.0f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(p, n);
}

// The factor of x in gelu(x), tanh form: 0.5 (1 + tanh u) = 1 / (1 + e^(-2u)). Taken at x clamped to ±20, where it is 0
// or 1.
static inline __m512 gelu_factor(__m512 x) {
  x = _mm512_min_ps(_mm512_set1_ps(20.0f), _mm512_max_ps(_mm512_set1_ps(-20.0f), x));
  const __m512 inner = _mm512_fmadd_ps(_mm512_mul_ps(x, x), _mm512_set1_ps(0.044715f), _mm512_set1_ps(1.0f));
  const __m512 exponent = _mm512_mul_ps(_mm512_mul_ps(x, _mm512_set1_ps(-2.0f * 0.7978845608f)), inner);
  return _mm512_div_ps(_mm512_set1_ps(1.0f), _mm512_add_ps(_mm512_set1_ps(1.0f), exp16(exponent)));
}
static inline __m512 gelu16(__m512 x) {
  const __mmask16 not_zero = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-20.0f), _CMP_NLT_UQ);
  return _mm512_maskz_mul_ps(not_zero, x, gelu_factor(x));
}
static inline __m512 relu16(__m512 x) {
  return _mm512_max_ps(_mm512_setzero_ps(), x);
}  // NaN stays

// What an activation other than gelu keeps of a number: relu [0, inf), relu6 [0, 6], none all of it. NaN stays.
struct Bounds {
  __m512 low, high;
};
static inline Bounds bounds_of(Activation activation) {
  const float low = activation == Activation::kNone ? -__builtin_inff() : 0.0f;
  const float high = activation == Activation::kRelu6 ? 6.0f : __builtin_inff();
  return {_mm512_set1_ps(low), _mm512_set1_ps(high)};
}
static inline __m512 bounded16(Bounds bounds, __m512 x) {
  return _mm512_min_ps(bounds.high, _mm512_max_ps(bounds.low, x));
}
// The largest y at which relu or relu6 let the gradient through: every one, or the last float below 6.
static inline __m512 last_passing(Activation activation) {
  return _mm512_set1_ps(activation == Activation::kRelu6 ? 0x1.7ffffep+2f : __builtin_inff());
}
static inline __mmask16 passes16(__m512 y, __m512 last) {
  return _mm512_mask_cmp_ps_mask(_mm512_cmp_ps_mask(y, _mm512_setzero_ps(), _CMP_GT_OQ), y, last, _CMP_LE_OQ);
}

// f32 lanes 0-7 and 8-15 added to doubles at `sums`.
static inline void add_to_doubles(double* sums, __m512 x, __mmask16 mask) {
  const auto low = static_cast<__mmask8>(mask), high = static_cast<__mmask8>(mask >> 8);
  const __m512d a = _mm512_cvtps_pd(_mm512_castps512_ps256(x)), b = _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
  _mm512_mask_storeu_pd(sums, low, _mm512_add_pd(_mm512_maskz_loadu_pd(low, sums), a));
  _mm512_mask_storeu_pd(sums + 8, high, _mm512_add_pd(_mm512_maskz_loadu_pd(high, sums + 8), b));
}

// Calls body<VECTORS>(first channel, mask of the last vector) for blocks of up to 64 channels.
template <typename Body>
static inline void by_channels(std::int64_t width, Body body) {
  for (std::int64_t c = 0; c < width; c += 64) {
    const std::int64_t left = width - c;
    if (left > 48)
      body.template operator()<4>(c, lanes(left - 48));
    else if (left > 32)
      body.template operator()<3>(c, lanes(left - 32));
    else if (left > 16)
      body.template operator()<2>(c, lanes(left - 16));
    else
      body.template operator()<1>(c, lanes(left));
  }
}
// The mask of vector `v` of `count`, all but the last being full.
static inline __mmask16 lanes_of(int v, int count, __mmask16 last) {
  return v + 1 < count ? __mmask16{0xffff} : last;
}

static inline std::size_t bytes_of(std::int64_t count, std::size_t size) {
  return static_cast<std::size_t>(count) * size;
}

}  // namespace mlx::kernels::avx512
