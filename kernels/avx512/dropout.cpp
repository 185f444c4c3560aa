// AVX-512 dropout: sixteen Philox blocks at a time, the same numbers as philox.h gives one by one; for single
// elements or for whole examples (stochastic depth).
#include "kernels/avx512/lanes.h"

namespace mlx::kernels::avx512 {
namespace {

// High and low halves of a * factor in each of 16 lanes.
inline void multiply(__m512i a, __m512i factor, __m512i* high, __m512i* low) {
  const __m512i even = _mm512_mul_epu32(a, factor);
  const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), factor);
  *low = _mm512_mask_mov_epi32(even, 0xaaaa, _mm512_slli_epi64(odd, 32));
  *high = _mm512_mask_mov_epi32(_mm512_srli_epi64(even, 32), 0xaaaa, odd);
}

struct Stream {
  std::uint64_t seed, mixed;  // as random_block of philox.h has them
};

// The numbers of elements 4·block … 4·block+63 in order; block is a multiple of 16.
inline void draw(const Stream& stream, std::uint64_t block, __m512i out[4]) {
  // Lane 4a+b counts block 4b+a, so that transposing 4x4 lanes leaves the elements in order.
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  __m512i c0 = _mm512_add_epi32(_mm512_set1_epi32(static_cast<int>(block)), order);
  __m512i c1 = _mm512_set1_epi32(static_cast<int>(block >> 32));
  __m512i c2 = _mm512_set1_epi32(static_cast<int>(stream.mixed));
  __m512i c3 = _mm512_set1_epi32(static_cast<int>(stream.mixed >> 32));
  auto key0 = static_cast<std::uint32_t>(stream.seed), key1 = static_cast<std::uint32_t>(stream.seed >> 32);
  const __m512i first = _mm512_set1_epi32(static_cast<int>(0xD2511F53u));
  const __m512i second = _mm512_set1_epi32(static_cast<int>(0xCD9E8D57u));
  for (int round = 0; round < 10; ++round) {
    __m512i high0, low0, high1, low1;
    multiply(c0, first, &high0, &low0);
    multiply(c2, second, &high1, &low1);
    c0 = _mm512_ternarylogic_epi32(high1, c1, _mm512_set1_epi32(static_cast<int>(key0)), 0x96);
    c2 = _mm512_ternarylogic_epi32(high0, c3, _mm512_set1_epi32(static_cast<int>(key1)), 0x96);
    c1 = low1, c3 = low0;
    key0 += 0x9E3779B9u, key1 += 0xBB67AE85u;
  }
  const __m512i a = _mm512_unpacklo_epi32(c0, c1), b = _mm512_unpackhi_epi32(c0, c1);
  const __m512i c = _mm512_unpacklo_epi32(c2, c3), d = _mm512_unpackhi_epi32(c2, c3);
  out[0] = _mm512_unpacklo_epi64(a, c), out[1] = _mm512_unpackhi_epi64(a, c);
  out[2] = _mm512_unpacklo_epi64(b, d), out[3] = _mm512_unpackhi_epi64(b, d);
}

Stream stream_of(const State* s, const Args& args) {
  return {args.seed, s->attrs.stream * 0x9E3779B97F4A7C15u + args.step};
}

void dropout(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const float* x = f32_in(s, args, 0);
  float* y = f32_out(s, args, 0);
  const __m512 scale = _mm512_set1_ps(1.0f / (1.0f - s->attrs.rate)), rate = _mm512_set1_ps(s->attrs.rate);
  const Stream stream = stream_of(s, args);
  const Range range = elements_of(s, phase, slice, s->g.count);
  for (std::int64_t i = range.begin; i < range.end; i += 64) {
    __m512i bits[4];
    draw(stream, static_cast<std::uint64_t>(i) / 4, bits);
    for (int v = 0; v < 4 && i + 16 * v < range.end; ++v) {
      const std::int64_t at = i + 16 * v;
      const __m512 unit = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_srli_epi32(bits[v], 8)), _mm512_set1_ps(0x1p-24f));
      const __mmask16 mask = lanes(range.end - at), kept = _mm512_cmp_ps_mask(unit, rate, _CMP_GE_OQ);
      _mm512_mask_storeu_ps(y + at, mask, _mm512_maskz_mul_ps(kept, _mm512_maskz_loadu_ps(mask, x + at), scale));
    }
  }
}

// Sliced by example, each kept or dropped whole.
void drop_examples(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const std::int64_t each = s->g.n > 0 ? s->g.count / s->g.n : 0;
  const __m512 scale = _mm512_set1_ps(1.0f / (1.0f - s->attrs.rate));
  const Stream stream = stream_of(s, args);
  const Range examples = range_of(s, phase, slice);
  for (std::int64_t n = examples.begin; n < examples.end; ++n) {
    alignas(64) std::uint32_t bits[64];
    __m512i drawn[4];
    draw(stream, static_cast<std::uint64_t>(n) / 64 * 16, drawn);
    for (int v = 0; v < 4; ++v) _mm512_store_si512(bits + 16 * v, drawn[v]);
    const bool kept = static_cast<float>(bits[n % 64] >> 8) * 0x1p-24f >= s->attrs.rate;
    const float* x = f32_in(s, args, 0) + n * each;
    float* y = f32_out(s, args, 0) + n * each;
    for (std::int64_t i = 0; i < each; i += 16) {
      const __mmask16 mask = lanes(each - i), read = kept ? mask : __mmask16{0};
      _mm512_mask_storeu_ps(y + i, mask, _mm512_mul_ps(_mm512_maskz_loadu_ps(read, x + i), scale));
    }
  }
}

}  // namespace

bool prepare_dropout(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, dropout);
  if (!s) return false;
  if (s->attrs.whole_example) {
    plan.run = drop_examples;
    cut(s, plan, 0, s->g.n, s->g.count * 8);
    return true;
  }
  cut(s, plan, 0, (s->g.count + kBlock - 1) / kBlock, s->g.count * 8);
  return true;
}

}  // namespace mlx::kernels::avx512
