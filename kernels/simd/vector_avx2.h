// The sixteen lanes of vector.h with AVX2 and FMA: two registers each, lanes 0-7 and 8-15.
#pragma once

#include <immintrin.h>

#include "kernels/kernel.h"

namespace mlx::kernels::MLX_ISA {
namespace {

constexpr int kHeld = 8;  // Floats that the registers hold

struct Floats {
  __m256 a, b;
};
struct Ints {
  __m256i a, b;
};
struct Doubles {
  __m256d a, b, c, d;
};
struct Bytes {
  __m256i a, b;
};
struct Mask {  // each lane has all bits set or none
  __m256i a, b;
};

inline __m256i splat(std::int32_t i) {
  return _mm256_set1_epi32(i);
}
inline __m256i counted(int from) {
  return _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), splat(from));
}
inline __m256 as_floats(__m256i x) {
  return _mm256_castsi256_ps(x);
}
inline __m256i as_integers(__m256 x) {
  return _mm256_castps_si256(x);
}

inline Mask every() {
  return {splat(-1), splat(-1)};
}
inline Mask none() {
  return {splat(0), splat(0)};
}
inline Mask lanes(std::int64_t n) {
  const __m256i end = splat(n > 16 ? 16 : static_cast<std::int32_t>(n < 0 ? 0 : n));
  return {_mm256_cmpgt_epi32(end, counted(0)), _mm256_cmpgt_epi32(end, counted(8))};
}
inline Mask lanes_from(std::int64_t n) {
  const __m256i begin = splat(n > 16 ? 16 : static_cast<std::int32_t>(n < 0 ? 0 : n));
  return {_mm256_cmpgt_epi32(counted(1), begin), _mm256_cmpgt_epi32(counted(9), begin)};
}
inline int count(Mask m) {
  return __builtin_popcount(
      static_cast<unsigned>(_mm256_movemask_ps(as_floats(m.a)) | _mm256_movemask_ps(as_floats(m.b)) << 8));
}
inline bool is_full(Mask m) {
  return count(m) == 16;
}
inline bool any(Mask m) {
  return _mm256_movemask_ps(as_floats(_mm256_or_si256(m.a, m.b))) != 0;
}
inline Mask operator&(Mask x, Mask y) {
  return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)};
}
inline Mask operator|(Mask x, Mask y) {
  return {_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)};
}
inline Mask operator^(Mask x, Mask y) {
  return {_mm256_xor_si256(x.a, y.a), _mm256_xor_si256(x.b, y.b)};
}
inline Mask operator~(Mask x) {
  return x ^ every();
}

inline Floats zeros() {
  return {_mm256_setzero_ps(), _mm256_setzero_ps()};
}
inline Floats broadcast(float x) {
  return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
inline Floats load(const float* from) {
  return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)};
}
inline Floats load(const float* from, Mask m) {
  return {_mm256_maskload_ps(from, m.a), _mm256_maskload_ps(from + 8, m.b)};
}
inline void store(float* to, Floats x) {
  _mm256_storeu_ps(to, x.a), _mm256_storeu_ps(to + 8, x.b);
}
inline void store(float* to, Floats x, Mask m) {
  _mm256_maskstore_ps(to, m.a, x.a), _mm256_maskstore_ps(to + 8, m.b, x.b);
}
inline float lane_0(Floats x) {
  return _mm256_cvtss_f32(x.a);
}
inline Floats operator+(Floats x, Floats y) {
  return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}
inline Floats operator-(Floats x, Floats y) {
  return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}
inline Floats operator*(Floats x, Floats y) {
  return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}
inline Floats operator/(Floats x, Floats y) {
  return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
}
inline Floats fma(Floats x, Floats y, Floats z) {
  return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
inline Floats fnma(Floats x, Floats y, Floats z) {
  return {_mm256_fnmadd_ps(x.a, y.a, z.a), _mm256_fnmadd_ps(x.b, y.b, z.b)};
}
inline Floats fms(Floats x, Floats y, Floats z) {
  return {_mm256_fmsub_ps(x.a, y.a, z.a), _mm256_fmsub_ps(x.b, y.b, z.b)};
}
inline Floats min(Floats x, Floats y) {
  return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)};
}
inline Floats max(Floats x, Floats y) {
  return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
}
inline Floats sqrt(Floats x) {
  return {_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)};
}
inline Floats abs(Floats x) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
inline Floats sign_bits(Floats x) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_and_ps(sign, x.a), _mm256_and_ps(sign, x.b)};
}
inline Floats operator|(Floats x, Floats y) {
  return {_mm256_or_ps(x.a, y.a), _mm256_or_ps(x.b, y.b)};
}
inline Floats round(Floats x) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(x.a, kNearest), _mm256_round_ps(x.b, kNearest)};
}
// In two steps of half the exponent each: the first is exact, the second may overflow or round to a denormal.
inline __m256 power_of_two(__m256i n) {
  return as_floats(_mm256_slli_epi32(_mm256_add_epi32(n, splat(127)), 23));
}
inline __m256 scaled(__m256 x, __m256 n) {
  const __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1);
  return _mm256_mul_ps(_mm256_mul_ps(x, power_of_two(half)), power_of_two(_mm256_sub_epi32(whole, half)));
}
inline Floats scale(Floats x, Floats n) {
  return {scaled(x.a, n.a), scaled(x.b, n.b)};
}
template <int kPredicate>
inline Mask compared(Floats x, Floats y) {
  return {as_integers(_mm256_cmp_ps(x.a, y.a, kPredicate)), as_integers(_mm256_cmp_ps(x.b, y.b, kPredicate))};
}
inline Mask operator>(Floats x, Floats y) {
  return compared<_CMP_GT_OQ>(x, y);
}
inline Mask operator>=(Floats x, Floats y) {
  return compared<_CMP_GE_OQ>(x, y);
}
inline Mask operator<(Floats x, Floats y) {
  return compared<_CMP_LT_OQ>(x, y);
}
inline Mask operator<=(Floats x, Floats y) {
  return compared<_CMP_LE_OQ>(x, y);
}
inline Mask operator==(Floats x, Floats y) {
  return compared<_CMP_EQ_OQ>(x, y);
}
inline Mask ordered(Floats x) {
  return compared<_CMP_ORD_Q>(x, x);
}
inline Floats keep(Mask m, Floats x) {
  return {_mm256_and_ps(as_floats(m.a), x.a), _mm256_and_ps(as_floats(m.b), x.b)};
}
inline Floats select(Mask m, Floats x, Floats y) {
  return {_mm256_blendv_ps(y.a, x.a, as_floats(m.a)), _mm256_blendv_ps(y.b, x.b, as_floats(m.b))};
}
inline float lane_sum(Floats x) {
  return sum_of_eight(_mm256_add_ps(x.a, x.b));
}
inline float lane_max(Floats x) {
  return largest_of_eight(_mm256_max_ps(x.a, x.b));
}

inline Ints integers(std::int32_t i) {
  return {splat(i), splat(i)};
}
inline Ints load(const std::int32_t* from) {
  const auto* at = reinterpret_cast<const __m256i*>(from);
  return {_mm256_loadu_si256(at), _mm256_loadu_si256(at + 1)};
}
inline Ints load(const std::int32_t* from, Mask m) {
  return {_mm256_maskload_epi32(from, m.a), _mm256_maskload_epi32(from + 8, m.b)};
}
inline void store(std::int32_t* to, Ints x) {
  auto* at = reinterpret_cast<__m256i*>(to);
  _mm256_storeu_si256(at, x.a), _mm256_storeu_si256(at + 1, x.b);
}
inline void store(std::int32_t* to, Ints x, Mask m) {
  _mm256_maskstore_epi32(to, m.a, x.a), _mm256_maskstore_epi32(to + 8, m.b, x.b);
}
inline Ints operator+(Ints x, Ints y) {
  return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)};
}
inline Ints operator^(Ints x, Ints y) {
  return {_mm256_xor_si256(x.a, y.a), _mm256_xor_si256(x.b, y.b)};
}
inline Ints operator&(Ints x, Ints y) {
  return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)};
}
inline Mask operator==(Ints x, Ints y) {
  return {_mm256_cmpeq_epi32(x.a, y.a), _mm256_cmpeq_epi32(x.b, y.b)};
}
inline Mask negative(Ints x) {
  return {_mm256_srai_epi32(x.a, 31), _mm256_srai_epi32(x.b, 31)};
}
inline Ints keep(Mask m, Ints x) {
  return {_mm256_and_si256(m.a, x.a), _mm256_and_si256(m.b, x.b)};
}
inline Ints select(Mask m, Ints x, Ints y) {
  return {_mm256_blendv_epi8(y.a, x.a, m.a), _mm256_blendv_epi8(y.b, x.b, m.b)};
}
template <int kBits>
inline Ints shifted_right(Ints x) {  // as unsigned numbers
  return {_mm256_srli_epi32(x.a, kBits), _mm256_srli_epi32(x.b, kBits)};
}
template <int kBits>
inline Ints shifted_left(Ints x) {
  return {_mm256_slli_epi32(x.a, kBits), _mm256_slli_epi32(x.b, kBits)};
}
inline Floats to_floats(Ints x) {
  return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)};
}
inline Ints to_integers(Floats x) {  // rounds to nearest even; the least integer if it does not fit
  return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)};
}
inline void multiply_half(__m256i x, __m256i y, __m256i* high, __m256i* low) {
  const __m256i even = _mm256_mul_epu32(x, y);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), _mm256_srli_epi64(y, 32));
  *low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
  *high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
}
// High and low halves of the unsigned products.
inline void multiply(Ints x, Ints y, Ints* high, Ints* low) {
  multiply_half(x.a, y.a, &high->a, &low->a);
  multiply_half(x.b, y.b, &high->b, &low->b);
}
inline void transpose_half(__m256i x, __m256i y, __m256i z, __m256i w, __m256i out[4]) {
  const __m256i a = _mm256_unpacklo_epi32(x, y), b = _mm256_unpackhi_epi32(x, y);
  const __m256i c = _mm256_unpacklo_epi32(z, w), d = _mm256_unpackhi_epi32(z, w);
  out[0] = _mm256_unpacklo_epi64(a, c), out[1] = _mm256_unpackhi_epi64(a, c);
  out[2] = _mm256_unpacklo_epi64(b, d), out[3] = _mm256_unpackhi_epi64(b, d);
}
// Lane 4a + b of result k is lane 4a + k of row b.
inline void transpose_fours(const Ints rows[4], Ints out[4]) {
  __m256i low[4], high[4];
  transpose_half(rows[0].a, rows[1].a, rows[2].a, rows[3].a, low);
  transpose_half(rows[0].b, rows[1].b, rows[2].b, rows[3].b, high);
  for (int i = 0; i < 4; ++i) out[i] = {low[i], high[i]};
}
inline void transpose_eight(__m256* r) {
  __m256 t[8];
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    const __m256 low = r[i], high = r[i + 4];
    r[i] = _mm256_permute2f128_ps(low, high, 0x20);
    r[i + 4] = _mm256_permute2f128_ps(low, high, 0x31);
  }
}
// Transposes a 16 x 16 matrix, quarter by quarter.
inline void transpose(Floats* rows) {
  __m256 quarters[4][8];
  for (int i = 0; i < 8; ++i) {
    quarters[0][i] = rows[i].a, quarters[1][i] = rows[i].b;
    quarters[2][i] = rows[i + 8].a, quarters[3][i] = rows[i + 8].b;
  }
  for (auto& quarter : quarters) transpose_eight(quarter);
  for (int i = 0; i < 8; ++i) {
    rows[i] = {quarters[0][i], quarters[2][i]};
    rows[i + 8] = {quarters[1][i], quarters[3][i]};
  }
}

inline Doubles doubles(double x) {
  const __m256d all = _mm256_set1_pd(x);
  return {all, all, all, all};
}
inline Doubles to_doubles(Floats x) {
  return {_mm256_cvtps_pd(_mm256_castps256_ps128(x.a)), _mm256_cvtps_pd(_mm256_extractf128_ps(x.a, 1)),
          _mm256_cvtps_pd(_mm256_castps256_ps128(x.b)), _mm256_cvtps_pd(_mm256_extractf128_ps(x.b, 1))};
}
inline __m256i low_wide(__m256i mask) {
  return _mm256_cvtepi32_epi64(_mm256_castsi256_si128(mask));
}
inline __m256i high_wide(__m256i mask) {
  return _mm256_cvtepi32_epi64(_mm256_extracti128_si256(mask, 1));
}
inline Doubles load(const double* from, Mask m) {
  return {_mm256_maskload_pd(from, low_wide(m.a)), _mm256_maskload_pd(from + 4, high_wide(m.a)),
          _mm256_maskload_pd(from + 8, low_wide(m.b)), _mm256_maskload_pd(from + 12, high_wide(m.b))};
}
inline Doubles load(const double* from) {
  return {_mm256_loadu_pd(from), _mm256_loadu_pd(from + 4), _mm256_loadu_pd(from + 8), _mm256_loadu_pd(from + 12)};
}
inline void store(double* to, Doubles x) {
  _mm256_storeu_pd(to, x.a), _mm256_storeu_pd(to + 4, x.b);
  _mm256_storeu_pd(to + 8, x.c), _mm256_storeu_pd(to + 12, x.d);
}
inline void store(double* to, Doubles x, Mask m) {
  _mm256_maskstore_pd(to, low_wide(m.a), x.a), _mm256_maskstore_pd(to + 4, high_wide(m.a), x.b);
  _mm256_maskstore_pd(to + 8, low_wide(m.b), x.c), _mm256_maskstore_pd(to + 12, high_wide(m.b), x.d);
}
inline Doubles operator+(Doubles x, Doubles y) {
  return {_mm256_add_pd(x.a, y.a), _mm256_add_pd(x.b, y.b), _mm256_add_pd(x.c, y.c), _mm256_add_pd(x.d, y.d)};
}
inline Doubles fma(Doubles x, Doubles y, Doubles z) {
  return {_mm256_fmadd_pd(x.a, y.a, z.a), _mm256_fmadd_pd(x.b, y.b, z.b), _mm256_fmadd_pd(x.c, y.c, z.c),
          _mm256_fmadd_pd(x.d, y.d, z.d)};
}
inline double lane_sum(Doubles x) {
  return sum_of_four(_mm256_add_pd(_mm256_add_pd(x.a, x.c), _mm256_add_pd(x.b, x.d)));
}

// AVX2 has no masked moves of bytes: partial loads go through a buffer.
inline Bytes load_bytes(const void* from, std::int64_t n) {
  alignas(32) unsigned char part[64] = {};
  const auto* at = static_cast<const unsigned char*>(from);
  if (n < 64) {
    for (std::int64_t i = 0; i < n; ++i) part[i] = at[i];
    at = part;
  }
  const auto* bytes = reinterpret_cast<const __m256i*>(at);
  return {_mm256_loadu_si256(bytes), _mm256_loadu_si256(bytes + 1)};
}
inline void store_bytes(void* to, Bytes x, std::int64_t n) {
  alignas(32) unsigned char part[64];
  auto* at = static_cast<unsigned char*>(to);
  auto* bytes = reinterpret_cast<__m256i*>(n < 64 ? part : at);
  _mm256_storeu_si256(bytes, x.a), _mm256_storeu_si256(bytes + 1, x.b);
  for (std::int64_t i = 0; n < 64 && i < n; ++i) at[i] = part[i];
}
inline Bytes broadcast_bytes(int x) {
  const __m256i all = _mm256_set1_epi8(static_cast<char>(x));
  return {all, all};
}
template <bool Signed>
inline Bytes larger_bytes(Bytes x, Bytes y) {
  if constexpr (Signed) return {_mm256_max_epi8(x.a, y.a), _mm256_max_epi8(x.b, y.b)};
  return {_mm256_max_epu8(x.a, y.a), _mm256_max_epu8(x.b, y.b)};
}
template <bool Signed>
inline Ints load_narrow(const void* from, std::int64_t n) {
  alignas(16) unsigned char part[16] = {};
  const auto* at = static_cast<const unsigned char*>(from);
  if (n < 16) {
    for (std::int64_t i = 0; i < n; ++i) part[i] = at[i];
    at = part;
  }
  const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)), high = _mm_srli_si128(low, 8);
  if constexpr (Signed) return {_mm256_cvtepi8_epi32(low), _mm256_cvtepi8_epi32(high)};
  return {_mm256_cvtepu8_epi32(low), _mm256_cvtepu8_epi32(high)};
}
inline void store_narrow(void* to, Ints x, std::int64_t n) {
  const __m256i pick = _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 4, 8, 12, -1,
                                        -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  const __m256i a = _mm256_shuffle_epi8(x.a, pick), b = _mm256_shuffle_epi8(x.b, pick);
  const __m128i low = _mm_unpacklo_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  const __m128i high = _mm_unpacklo_epi32(_mm256_castsi256_si128(b), _mm256_extracti128_si256(b, 1));
  const __m128i bytes = _mm_unpacklo_epi64(low, high);
  if (n >= 16) return _mm_storeu_si128(static_cast<__m128i*>(to), bytes);
  alignas(16) unsigned char part[16];
  _mm_store_si128(reinterpret_cast<__m128i*>(part), bytes);
  for (std::int64_t i = 0; i < n; ++i) static_cast<unsigned char*>(to)[i] = part[i];
}

// VPMADDUBSW saturates the sum of two products of bytes; products of 16-bit numbers are summed exactly.
using Term = std::int16_t;
using Weight = std::int16_t;
constexpr std::int64_t kTerms = 2;
template <bool Signed>
constexpr Term kNoTerm = 0;
inline Ints dot(Ints terms, Ints weights, Ints sum) {
  return {_mm256_add_epi32(sum.a, _mm256_madd_epi16(terms.a, weights.a)),
          _mm256_add_epi32(sum.b, _mm256_madd_epi16(terms.b, weights.b))};
}
template <bool Signed>
inline void copy_terms(const void* from, Term* to, std::int64_t n) {
  const auto* at = static_cast<const std::int8_t*>(from);
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + i));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i),
                        Signed ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes));
  }
  for (; i < n; ++i) to[i] = Signed ? Term{at[i]} : Term{static_cast<std::uint8_t>(at[i])};
}
// VPMADDUBSW does not saturate: its pairs of products stay below 2 · 127 · 127.
constexpr int kByteOffset = 0;
inline __m256i dot_bytes_half(__m256i w, __m256i x) {
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
  return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}
inline Ints dot_bytes(Ints w, Ints x, Ints sum) {
  return {_mm256_add_epi32(sum.a, dot_bytes_half(w.a, x.a)), _mm256_add_epi32(sum.b, dot_bytes_half(w.b, x.b))};
}
// The same of bytes w from 0 to 127.
inline Ints dot_unsigned(Ints w, Ints x, Ints sum) {
  const __m256i ones = _mm256_set1_epi16(1);
  return {_mm256_add_epi32(sum.a, _mm256_madd_epi16(_mm256_maddubs_epi16(w.a, x.a), ones)),
          _mm256_add_epi32(sum.b, _mm256_madd_epi16(_mm256_maddubs_epi16(w.b, x.b), ones))};
}
inline Ints dot_low(Ints x, Ints weights, Ints sum) {
  return dot(x, weights, sum);
}

inline Floats load(const F16* from, Mask m) {
  alignas(32) F16 part[16] = {};
  if (!is_full(m)) {
    for (int i = 0, n = count(m); i < n; ++i) part[i] = from[i];
    from = part;
  }
  const auto* at = reinterpret_cast<const __m128i*>(from);
  return {_mm256_cvtph_ps(_mm_loadu_si128(at)), _mm256_cvtph_ps(_mm_loadu_si128(at + 1))};
}
inline Floats load(const BF16* from, Mask m) {
  alignas(32) BF16 part[16] = {};
  const int n = count(m);
  if (n < 16) {
    for (int i = 0; i < n; ++i) part[i] = from[i];
    from = part;
  }
  const __m256i all = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  const __m256i a = _mm256_cvtepu16_epi32(_mm256_castsi256_si128(all));
  const __m256i b = _mm256_cvtepu16_epi32(_mm256_extracti128_si256(all, 1));
  return {as_floats(_mm256_slli_epi32(a, 16)), as_floats(_mm256_slli_epi32(b, 16))};
}
inline void store(F16* to, Floats x, Mask m) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  alignas(32) F16 part[16];
  auto* const at = reinterpret_cast<__m128i*>(is_full(m) ? to : part);
  _mm_storeu_si128(at, _mm256_cvtps_ph(x.a, kNearest));
  _mm_storeu_si128(at + 1, _mm256_cvtps_ph(x.b, kNearest));
  for (int i = 0, n = is_full(m) ? 0 : count(m); i < n; ++i) to[i] = part[i];
}
inline __m256i rounded_to_bf16(__m256 x) {
  const __m256i bits = as_integers(x), upper = _mm256_srli_epi32(bits, 16);
  const __m256i below_half = _mm256_add_epi32(_mm256_and_si256(upper, splat(1)), splat(0x7fff));
  const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, below_half), 16);
  const __m256i nan = as_integers(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(rounded, _mm256_or_si256(upper, splat(0x40)), nan);
}
inline void store(BF16* to, Floats x, Mask m) {
  const __m256i mixed = _mm256_packus_epi32(rounded_to_bf16(x.a), rounded_to_bf16(x.b));
  const __m256i all = _mm256_permute4x64_epi64(mixed, 0xd8);
  const int n = count(m);
  if (n == 16) return _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), all);
  alignas(32) BF16 part[16];
  _mm256_store_si256(reinterpret_cast<__m256i*>(part), all);
  for (int i = 0; i < n; ++i) to[i] = part[i];
}

}  // namespace
}  // namespace mlx::kernels::MLX_ISA
