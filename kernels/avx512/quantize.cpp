// AVX-512 conversion between f32 and 8-bit integers at one scale: nearest even, saturating, NaN to 0.
#include "kernels/avx512/lanes.h"

namespace mlx::kernels::avx512 {
namespace {

template <bool Signed>
void quantize(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const float* x = f32_in(s, args, 0);
  auto* y = static_cast<std::int8_t*>(args.outputs[0]);
  const __m512 scale = _mm512_set1_ps(s->attrs.scale_y);
  const __m512 low = _mm512_set1_ps(Signed ? -128.0f : 0.0f), high = _mm512_set1_ps(Signed ? 127.0f : 255.0f);
  const Range range = elements_of(s, phase, slice, s->g.count);
  for (std::int64_t i = range.begin; i < range.end; i += 16) {
    const __mmask16 mask = lanes(range.end - i);
    const __m512 value = _mm512_div_ps(_mm512_maskz_loadu_ps(mask, x + i), scale);
    const __mmask16 number = _mm512_cmp_ps_mask(value, value, _CMP_ORD_Q);
    const __m512 inside = _mm512_min_ps(high, _mm512_max_ps(low, value));
    _mm512_mask_cvtepi32_storeu_epi8(y + i, mask, _mm512_maskz_cvtps_epi32(number, inside));
  }
}

template <bool Signed>
void dequantize(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const auto* x = static_cast<const std::int8_t*>(args.inputs[0]);
  float* y = f32_out(s, args, 0);
  const __m512 scale = _mm512_set1_ps(s->attrs.scale_x);
  const Range range = elements_of(s, phase, slice, s->g.count);
  for (std::int64_t i = range.begin; i < range.end; i += 16) {
    const __mmask16 mask = lanes(range.end - i);
    const __m128i bytes = _mm_maskz_loadu_epi8(mask, x + i);
    const __m512i wide = Signed ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes);
    _mm512_mask_storeu_ps(y + i, mask, _mm512_mul_ps(_mm512_cvtepi32_ps(wide), scale));
  }
}

}  // namespace

bool prepare_quantize(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, nullptr);
  if (!s) return false;
  if (problem.op == Op::kQuantize)
    plan.run = s->g.y_type == DType::kS8 ? quantize<true> : quantize<false>;
  else
    plan.run = s->g.x_type == DType::kS8 ? dequantize<true> : dequantize<false>;
  cut(s, plan, 0, (s->g.count + kBlock - 1) / kBlock, s->g.count * 5);
  return true;
}

}  // namespace mlx::kernels::avx512
