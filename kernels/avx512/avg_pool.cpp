// AVX-512 global average pooling, channels in the lanes, f32 and from 8-bit integers; and its gradient.
#include "kernels/avx512/lanes.h"

namespace mlx::kernels::avx512 {
namespace {

void forward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Geometry& g = s->g;
  const std::int64_t pixels = g.h * g.w;
  const Range images = range_of(s, phase, slice);
  for (std::int64_t n = images.begin; n < images.end; ++n)
    for (std::int64_t c = 0; c < g.c; c += 16) {
      const __mmask16 mask = lanes(g.c - c);
      const float* x = f32_in(s, args, 0) + n * pixels * g.c + c;
      __m512 sum = _mm512_setzero_ps();
      for (std::int64_t i = 0; i < pixels; ++i) sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, x + i * g.c));
      const __m512 count = _mm512_set1_ps(static_cast<float>(pixels));
      _mm512_mask_storeu_ps(f32_out(s, args, 0) + n * g.c + c, mask, _mm512_div_ps(sum, count));
    }
}

template <bool Signed>
void forward_bytes(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Geometry& g = s->g;
  const std::int64_t pixels = g.h * g.w;
  const __m512 scale = _mm512_set1_ps(s->attrs.scale_x / static_cast<float>(pixels));
  const Range images = range_of(s, phase, slice);
  for (std::int64_t n = images.begin; n < images.end; ++n)
    for (std::int64_t c = 0; c < g.c; c += 16) {
      const __mmask16 mask = lanes(g.c - c);
      const auto* x = static_cast<const std::uint8_t*>(args.inputs[0]) + n * pixels * g.c + c;
      __m512i sum = _mm512_setzero_si512();
      for (std::int64_t i = 0; i < pixels; ++i) {
        const __m128i bytes = _mm_maskz_loadu_epi8(mask, x + i * g.c);
        sum = _mm512_add_epi32(sum, Signed ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes));
      }
      _mm512_mask_storeu_ps(f32_out(s, args, 0) + n * g.c + c, mask, _mm512_mul_ps(_mm512_cvtepi32_ps(sum), scale));
    }
}

void backward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Geometry& g = s->g;
  const std::int64_t pixels = g.h * g.w;
  const __m512 count = _mm512_set1_ps(static_cast<float>(pixels));
  const Range images = range_of(s, phase, slice);
  for (std::int64_t n = images.begin; n < images.end; ++n)
    for (std::int64_t c = 0; c < g.c; c += 16) {
      const __mmask16 mask = lanes(g.c - c);
      const __m512 share = _mm512_div_ps(_mm512_maskz_loadu_ps(mask, f32_in(s, args, 0) + n * g.c + c), count);
      float* dx = f32_out(s, args, 0) + n * pixels * g.c + c;
      for (std::int64_t i = 0; i < pixels; ++i) _mm512_mask_storeu_ps(dx + i * g.c, mask, share);
    }
}

}  // namespace

bool prepare_avg_pool(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, problem.op == Op::kAvgPool ? forward : backward);
  if (!s) return false;
  if (s->g.quantized) {
    if (s->g.h * s->g.w > (1 << 23)) return false;  // the s32 sum of bytes must not overflow
    plan.run = s->g.x_type == DType::kU8 ? forward_bytes<false> : forward_bytes<true>;
  }
  cut(s, plan, 0, s->g.n, s->g.n * s->g.h * s->g.w * s->g.c * 4);
  return true;
}

}  // namespace mlx::kernels::avx512
