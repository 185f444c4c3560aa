// AVX-512 SwiGLU, silu(gate) · up, and its gradient: one pass at memory speed.
#include "kernels/avx512/lanes.h"

namespace mlx::kernels::avx512 {
namespace {

// 1 / (1 + e^-x).
inline __m512 sigmoid16(__m512 x) {
  const __m512 one = _mm512_set1_ps(1.0f);
  return _mm512_div_ps(one, _mm512_add_ps(one, exp16(_mm512_sub_ps(_mm512_setzero_ps(), x))));
}

void forward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const std::int64_t half = s->g.width / 2;
  const Range rows = range_of(s, phase, slice);
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    const float *gate = f32_in(s, args, 0) + r * 2 * half, *up = gate + half;
    float* y = f32_out(s, args, 0) + r * half;
    for (std::int64_t i = 0; i < half; i += 16) {
      const __mmask16 mask = lanes(half - i);
      const __m512 g = _mm512_maskz_loadu_ps(mask, gate + i), u = _mm512_maskz_loadu_ps(mask, up + i);
      _mm512_mask_storeu_ps(y + i, mask, _mm512_mul_ps(_mm512_mul_ps(g, sigmoid16(g)), u));
    }
  }
}

// With f = sigmoid(gate): d silu = f (1 + gate (1 - f)).
void backward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const std::int64_t half = s->g.width / 2;
  const __m512 one = _mm512_set1_ps(1.0f);
  const Range rows = range_of(s, phase, slice);
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    const float *gate = f32_in(s, args, 0) + r * 2 * half, *up = gate + half, *dy = f32_in(s, args, 1) + r * half;
    float* dx = f32_out(s, args, 0) + r * 2 * half;
    for (std::int64_t i = 0; i < half; i += 16) {
      const __mmask16 mask = lanes(half - i);
      const __m512 g = _mm512_maskz_loadu_ps(mask, gate + i), u = _mm512_maskz_loadu_ps(mask, up + i);
      const __m512 d = _mm512_maskz_loadu_ps(mask, dy + i), f = sigmoid16(g);
      const __m512 slope = _mm512_mul_ps(f, _mm512_fmadd_ps(g, _mm512_sub_ps(one, f), one));
      _mm512_mask_storeu_ps(dx + i, mask, _mm512_mul_ps(_mm512_mul_ps(d, u), slope));
      _mm512_mask_storeu_ps(dx + half + i, mask, _mm512_mul_ps(d, _mm512_mul_ps(g, f)));
    }
  }
}

}  // namespace

bool prepare_swiglu(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, problem.op == Op::kSwiGlu ? forward : backward);
  if (!s) return false;
  cut(s, plan, 0, s->g.rows, s->g.count * 8);
  return true;
}

}  // namespace mlx::kernels::avx512
