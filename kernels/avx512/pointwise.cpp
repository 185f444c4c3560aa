// AVX-512 relu, relu6, gelu, addition and their gradients: one pass at memory speed.
#include "kernels/avx512/lanes.h"

namespace mlx::kernels::avx512 {
namespace {

template <typename Body>
void each(const void* opaque, const Args& args, int phase, int slice, Body body) {
  const State* s = state_of(opaque);
  const float *a = f32_in(s, args, 0), *b = f32_in(s, args, 1);
  if (!b) b = a;
  float* y = f32_out(s, args, 0);
  const Range range = elements_of(s, phase, slice, s->g.count);
  for (std::int64_t i = range.begin; i < range.end; i += 16) {
    const __mmask16 mask = lanes(range.end - i);
    _mm512_mask_storeu_ps(y + i, mask, body(_mm512_maskz_loadu_ps(mask, a + i), _mm512_maskz_loadu_ps(mask, b + i)));
  }
}

void relu(const void* opaque, const Args& args, int phase, int slice) {
  each(opaque, args, phase, slice, [](__m512 x, __m512) { return relu16(x); });
}
void relu_backward(const void* opaque, const Args& args, int phase, int slice) {
  each(opaque, args, phase, slice, [](__m512 y, __m512 dy) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(y, _mm512_setzero_ps(), _CMP_GT_OQ), dy);
  });
}
void relu6(const void* opaque, const Args& args, int phase, int slice) {
  const Bounds bounds = bounds_of(Activation::kRelu6);
  each(opaque, args, phase, slice, [bounds](__m512 x, __m512) { return bounded16(bounds, x); });
}
void relu6_backward(const void* opaque, const Args& args, int phase, int slice) {
  const __m512 last = last_passing(Activation::kRelu6);
  each(opaque, args, phase, slice, [last](__m512 y, __m512 dy) { return _mm512_maskz_mov_ps(passes16(y, last), dy); });
}
void gelu(const void* opaque, const Args& args, int phase, int slice) {
  each(opaque, args, phase, slice, [](__m512 x, __m512) { return gelu16(x); });
}
// With f = 1 / (1 + e^(-2u)): d(x f)/dx = f + x f (1 - f) 2 du/dx.
void gelu_backward(const void* opaque, const Args& args, int phase, int slice) {
  each(opaque, args, phase, slice, [](__m512 x, __m512 dy) {
    const __m512 f = gelu_factor(x);
    x = _mm512_min_ps(_mm512_set1_ps(20.0f), _mm512_max_ps(_mm512_set1_ps(-20.0f), x));
    const __m512 one = _mm512_set1_ps(1.0f);
    const __m512 slope = _mm512_fmadd_ps(_mm512_mul_ps(x, x), _mm512_set1_ps(3.0f * 0.044715f), one);
    const __m512 bell = _mm512_mul_ps(_mm512_mul_ps(x, f), _mm512_sub_ps(one, f));
    const __m512 sum = _mm512_fmadd_ps(_mm512_mul_ps(bell, _mm512_set1_ps(2.0f * 0.7978845608f)), slope, f);
    return _mm512_mul_ps(sum, dy);
  });
}
void add(const void* opaque, const Args& args, int phase, int slice) {
  const Bounds bounds = bounds_of(state_of(opaque)->attrs.activation);
  each(opaque, args, phase, slice, [bounds](__m512 a, __m512 b) { return bounded16(bounds, _mm512_add_ps(a, b)); });
}
void scaled_add(const void* opaque, const Args& args, int phase, int slice) {
  const __m512 scale_a = _mm512_set1_ps(state_of(opaque)->attrs.scale_a);
  const __m512 scale_b = _mm512_set1_ps(state_of(opaque)->attrs.scale_b);
  each(opaque, args, phase, slice,
       [&](__m512 a, __m512 b) { return _mm512_fmadd_ps(scale_a, a, _mm512_mul_ps(scale_b, b)); });
}

}  // namespace

bool prepare_pointwise(const Problem& problem, Plan& plan) {
  Run run = add;
  if (problem.op == Op::kRelu) run = relu;
  if (problem.op == Op::kReluBackward) run = relu_backward;
  if (problem.op == Op::kRelu6) run = relu6;
  if (problem.op == Op::kRelu6Backward) run = relu6_backward;
  if (problem.op == Op::kGelu) run = gelu;
  if (problem.op == Op::kGeluBackward) run = gelu_backward;
  if (problem.op == Op::kScaledAdd) run = scaled_add;
  State* s = new_state(problem, plan, run);
  if (!s) return false;
  cut(s, plan, 0, (s->g.count + kBlock - 1) / kBlock, s->g.count * 8);
  return true;
}

}  // namespace mlx::kernels::avx512
