// The sixteen lanes of vector.h with AVX-512: one register each.
#pragma once

#include <immintrin.h>

#include "kernels/kernel.h"

namespace mlx::kernels::MLX_ISA {
namespace {

constexpr int kHeld = 32;  // Floats that the registers hold

struct Floats {
  __m512 v;
};
struct Ints {
  __m512i v;
};
struct Doubles {
  __m512d low, high;
};
struct Bytes {
  __m512i v;
};
struct Mask {
  __mmask16 bits;
};

inline Mask every() {
  return {0xffff};
}
inline Mask none() {
  return {0};
}
inline Mask lanes(std::int64_t n) {
  return {n >= 16 ? __mmask16{0xffff} : n <= 0 ? __mmask16{0} : static_cast<__mmask16>((1u << n) - 1u)};
}
inline Mask lanes_from(std::int64_t n) {
  return {n <= 0 ? __mmask16{0xffff} : n > 15 ? __mmask16{0} : static_cast<__mmask16>(0xffffu << n)};
}
inline bool is_full(Mask m) {
  return m.bits == 0xffff;
}
inline bool any(Mask m) {
  return m.bits != 0;
}
inline int count(Mask m) {
  return __builtin_popcount(m.bits);
}
inline Mask operator&(Mask a, Mask b) {
  return {static_cast<__mmask16>(a.bits & b.bits)};
}
inline Mask operator|(Mask a, Mask b) {
  return {static_cast<__mmask16>(a.bits | b.bits)};
}
inline Mask operator^(Mask a, Mask b) {
  return {static_cast<__mmask16>(a.bits ^ b.bits)};
}
inline Mask operator~(Mask a) {
  return {static_cast<__mmask16>(~a.bits)};
}

inline Floats zeros() {
  return {_mm512_setzero_ps()};
}
inline Floats broadcast(float x) {
  return {_mm512_set1_ps(x)};
}
inline Floats load(const float* from) {
  return {_mm512_loadu_ps(from)};
}
inline Floats load(const float* from, Mask m) {
  return {_mm512_maskz_loadu_ps(m.bits, from)};
}
inline void store(float* to, Floats x) {
  _mm512_storeu_ps(to, x.v);
}
inline void store(float* to, Floats x, Mask m) {
  _mm512_mask_storeu_ps(to, m.bits, x.v);
}
inline float lane_0(Floats x) {
  return _mm512_cvtss_f32(x.v);
}
inline Floats operator+(Floats a, Floats b) {
  return {_mm512_add_ps(a.v, b.v)};
}
inline Floats operator-(Floats a, Floats b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
inline Floats operator*(Floats a, Floats b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
inline Floats operator/(Floats a, Floats b) {
  return {_mm512_div_ps(a.v, b.v)};
}
inline Floats fma(Floats a, Floats b, Floats c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
inline Floats fnma(Floats a, Floats b, Floats c) {
  return {_mm512_fnmadd_ps(a.v, b.v, c.v)};
}
inline Floats fms(Floats a, Floats b, Floats c) {
  return {_mm512_fmsub_ps(a.v, b.v, c.v)};
}
inline Floats min(Floats a, Floats b) {
  return {_mm512_min_ps(a.v, b.v)};
}
inline Floats max(Floats a, Floats b) {
  return {_mm512_max_ps(a.v, b.v)};
}
inline Floats sqrt(Floats x) {
  return {_mm512_sqrt_ps(x.v)};
}
inline Floats abs(Floats x) {
  return {_mm512_abs_ps(x.v)};
}
inline Floats sign_bits(Floats x) {
  return {_mm512_and_ps(x.v, _mm512_set1_ps(-0.0f))};
}
inline Floats operator|(Floats a, Floats b) {
  return {_mm512_or_ps(a.v, b.v)};
}
inline Floats round(Floats x) {
  return {_mm512_roundscale_ps(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
inline Floats scale(Floats x, Floats n) {
  return {_mm512_scalef_ps(x.v, n.v)};
}
inline Mask operator>(Floats a, Floats b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ)};
}
inline Mask operator>=(Floats a, Floats b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GE_OQ)};
}
inline Mask operator<(Floats a, Floats b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)};
}
inline Mask operator<=(Floats a, Floats b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ)};
}
inline Mask operator==(Floats a, Floats b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)};
}
inline Mask ordered(Floats x) {
  return {_mm512_cmp_ps_mask(x.v, x.v, _CMP_ORD_Q)};
}
inline Floats keep(Mask m, Floats x) {
  return {_mm512_maskz_mov_ps(m.bits, x.v)};
}
inline Floats select(Mask m, Floats a, Floats b) {
  return {_mm512_mask_mov_ps(b.v, m.bits, a.v)};
}
inline float lane_sum(Floats x) {
  return sum_of_eight(_mm256_add_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1)));
}
inline float lane_max(Floats x) {
  return largest_of_eight(_mm256_max_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1)));
}

inline Ints integers(std::int32_t i) {
  return {_mm512_set1_epi32(i)};
}
inline Ints load(const std::int32_t* from) {
  return {_mm512_loadu_si512(from)};
}
inline Ints load(const std::int32_t* from, Mask m) {
  return {_mm512_maskz_loadu_epi32(m.bits, from)};
}
inline void store(std::int32_t* to, Ints x) {
  _mm512_storeu_si512(to, x.v);
}
inline void store(std::int32_t* to, Ints x, Mask m) {
  _mm512_mask_storeu_epi32(to, m.bits, x.v);
}
inline Ints operator+(Ints a, Ints b) {
  return {_mm512_add_epi32(a.v, b.v)};
}
inline Ints operator^(Ints a, Ints b) {
  return {_mm512_xor_si512(a.v, b.v)};
}
inline Ints operator&(Ints a, Ints b) {
  return {_mm512_and_si512(a.v, b.v)};
}
inline Mask operator==(Ints a, Ints b) {
  return {_mm512_cmpeq_epi32_mask(a.v, b.v)};
}
inline Mask negative(Ints x) {
  return {_mm512_movepi32_mask(x.v)};
}
inline Ints keep(Mask m, Ints x) {
  return {_mm512_maskz_mov_epi32(m.bits, x.v)};
}
inline Ints select(Mask m, Ints a, Ints b) {
  return {_mm512_mask_mov_epi32(b.v, m.bits, a.v)};
}
template <int kBits>
inline Ints shifted_right(Ints x) {  // as unsigned numbers
  return {_mm512_srli_epi32(x.v, kBits)};
}
template <int kBits>
inline Ints shifted_left(Ints x) {
  return {_mm512_slli_epi32(x.v, kBits)};
}
inline Floats to_floats(Ints x) {
  return {_mm512_cvtepi32_ps(x.v)};
}
inline Ints to_integers(Floats x) {  // rounds to nearest even; the least integer if it does not fit
  return {_mm512_cvtps_epi32(x.v)};
}
// High and low halves of the unsigned products.
inline void multiply(Ints a, Ints b, Ints* high, Ints* low) {
  const __m512i even = _mm512_mul_epu32(a.v, b.v);
  const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(a.v, 32), _mm512_srli_epi64(b.v, 32));
  *low = {_mm512_mask_mov_epi32(even, 0xaaaa, _mm512_slli_epi64(odd, 32))};
  *high = {_mm512_mask_mov_epi32(_mm512_srli_epi64(even, 32), 0xaaaa, odd)};
}
// Lane 4a + b of result k is lane 4a + k of row b.
inline void transpose_fours(const Ints rows[4], Ints out[4]) {
  const __m512i a = _mm512_unpacklo_epi32(rows[0].v, rows[1].v), b = _mm512_unpackhi_epi32(rows[0].v, rows[1].v);
  const __m512i c = _mm512_unpacklo_epi32(rows[2].v, rows[3].v), d = _mm512_unpackhi_epi32(rows[2].v, rows[3].v);
  out[0] = {_mm512_unpacklo_epi64(a, c)}, out[1] = {_mm512_unpackhi_epi64(a, c)};
  out[2] = {_mm512_unpacklo_epi64(b, d)}, out[3] = {_mm512_unpackhi_epi64(b, d)};
}
// Transposes a 16 x 16 matrix.
inline void transpose(Floats* rows) {
  __m512 r[16], t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(rows[i].v, rows[i + 1].v);
    t[i + 1] = _mm512_unpackhi_ps(rows[i].v, rows[i + 1].v);
  }
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  for (int i = 0; i < 16; i += 8)
    for (int j = 0; j < 4; ++j) {
      t[i + j] = _mm512_shuffle_f32x4(r[i + j], r[i + j + 4], 0x88);
      t[i + j + 4] = _mm512_shuffle_f32x4(r[i + j], r[i + j + 4], 0xdd);
    }
  for (int j = 0; j < 8; ++j) {
    rows[j] = {_mm512_shuffle_f32x4(t[j], t[j + 8], 0x88)};
    rows[j + 8] = {_mm512_shuffle_f32x4(t[j], t[j + 8], 0xdd)};
  }
}

inline Doubles doubles(double x) {
  return {_mm512_set1_pd(x), _mm512_set1_pd(x)};
}
inline Doubles to_doubles(Floats x) {
  return {_mm512_cvtps_pd(_mm512_castps512_ps256(x.v)), _mm512_cvtps_pd(_mm512_extractf32x8_ps(x.v, 1))};
}
inline Doubles load(const double* from, Mask m) {
  return {_mm512_maskz_loadu_pd(static_cast<__mmask8>(m.bits), from),
          _mm512_maskz_loadu_pd(static_cast<__mmask8>(m.bits >> 8), from + 8)};
}
inline Doubles load(const double* from) {
  return {_mm512_loadu_pd(from), _mm512_loadu_pd(from + 8)};
}
inline void store(double* to, Doubles x) {
  _mm512_storeu_pd(to, x.low), _mm512_storeu_pd(to + 8, x.high);
}
inline void store(double* to, Doubles x, Mask m) {
  _mm512_mask_storeu_pd(to, static_cast<__mmask8>(m.bits), x.low);
  _mm512_mask_storeu_pd(to + 8, static_cast<__mmask8>(m.bits >> 8), x.high);
}
inline Doubles operator+(Doubles a, Doubles b) {
  return {_mm512_add_pd(a.low, b.low), _mm512_add_pd(a.high, b.high)};
}
inline Doubles fma(Doubles a, Doubles b, Doubles c) {
  return {_mm512_fmadd_pd(a.low, b.low, c.low), _mm512_fmadd_pd(a.high, b.high, c.high)};
}
inline double lane_sum(Doubles x) {
  const __m512d eight = _mm512_add_pd(x.low, x.high);
  return sum_of_four(_mm256_add_pd(_mm512_castpd512_pd256(eight), _mm512_extractf64x4_pd(eight, 1)));
}

inline __mmask64 bytes_mask(std::int64_t n) {
  return n >= 64 ? ~__mmask64{0} : (__mmask64{1} << n) - 1;
}
inline Bytes load_bytes(const void* from, std::int64_t n) {
  return {_mm512_maskz_loadu_epi8(bytes_mask(n), from)};
}
inline void store_bytes(void* to, Bytes x, std::int64_t n) {
  _mm512_mask_storeu_epi8(to, bytes_mask(n), x.v);
}
inline Bytes broadcast_bytes(int x) {
  return {_mm512_set1_epi8(static_cast<char>(x))};
}
template <bool Signed>
inline Bytes larger_bytes(Bytes a, Bytes b) {
  return {Signed ? _mm512_max_epi8(a.v, b.v) : _mm512_max_epu8(a.v, b.v)};
}
template <bool Signed>
inline Ints load_narrow(const void* from, std::int64_t n) {
  const __m128i bytes = _mm_maskz_loadu_epi8(lanes(n).bits, from);
  return {Signed ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes)};
}
inline void store_narrow(void* to, Ints x, std::int64_t n) {
  if (n >= 16) return _mm_storeu_si128(static_cast<__m128i*>(to), _mm512_cvtepi32_epi8(x.v));  // a masked store is slow
  _mm512_mask_cvtepi32_storeu_epi8(to, lanes(n).bits, x.v);
}

using Term = std::uint8_t;
using Weight = std::int8_t;
constexpr std::int64_t kTerms = 4;
template <bool Signed>
constexpr Term kNoTerm = Signed ? 128 : 0;  // the representation of 0
inline Ints dot(Ints terms, Ints weights, Ints sum) {
  return {_mm512_dpbusd_epi32(sum.v, terms.v, weights.v)};
}
template <bool Signed>
inline void copy_terms(const void* from, Term* to, std::int64_t n) {
  const __m512i change = _mm512_set1_epi8(static_cast<char>(kNoTerm<Signed>));
  for (std::int64_t i = 0; i < n; i += 64) {
    const __mmask64 mask = bytes_mask(n - i);
    const __m512i bytes = _mm512_maskz_loadu_epi8(mask, static_cast<const char*>(from) + i);
    _mm512_mask_storeu_epi8(to + i, mask, _mm512_xor_si512(bytes, change));
  }
}
constexpr int kByteOffset = 128;
inline Ints dot_bytes(Ints w, Ints x, Ints sum) {
  return {_mm512_dpbusd_epi32(sum.v, w.v, x.v)};
}
// The same of bytes w from 0 to 127.
inline Ints dot_unsigned(Ints w, Ints x, Ints sum) {
  return dot_bytes(w, x, sum);
}
// Sums the products of the 16-bit numbers in the lower halves of the lanes.
inline Ints dot_low(Ints x, Ints weights, Ints sum) {
  return {_mm512_dpwssd_epi32(sum.v, x.v, weights.v)};
}

inline Floats load(const F16* from, Mask m) {
  return {_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(m.bits, from))};
}
// With integer instructions, because VCVTNEPS2BF16 treats denormals as zero.
inline Floats load(const BF16* from, Mask m) {
  const __m512i bits = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m.bits, from));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(bits, 16))};
}
inline void store(F16* to, Floats x, Mask m) {
  _mm256_mask_storeu_epi16(to, m.bits, _mm512_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
inline void store(BF16* to, Floats x, Mask m) {
  const __m512i bits = _mm512_castps_si512(x.v), upper = _mm512_srli_epi32(bits, 16);
  const __m512i odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
  const __m512i below_half = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
  const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, below_half), 16);
  const __mmask16 nan = _mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q);
  const __m512i quiet = _mm512_mask_or_epi32(rounded, nan, upper, _mm512_set1_epi32(0x40));
  _mm512_mask_cvtepi32_storeu_epi16(to, m.bits, quiet);
}

}  // namespace
}  // namespace mlx::kernels::MLX_ISA
