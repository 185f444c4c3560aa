// AVX-512 SGD with momentum, AdamW and Lion: one pass over parameter, gradient and state.
#include <math.h>

#include "kernels/avx512/lanes.h"

namespace mlx::kernels::avx512 {
namespace {

// What gradients count times, from the norm of all of them at input `i`.
__m512 clipped(const State* s, const Args& args, int i) {
  const float* norm = f32_in(s, args, i);
  return _mm512_set1_ps(norm && norm[0] > s->attrs.clip ? s->attrs.clip / norm[0] : 1.0f);
}

void sgd(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const float *w = f32_in(s, args, 0), *dw = f32_in(s, args, 1), *velocity = f32_in(s, args, 2);
  float *w_out = f32_out(s, args, 0), *velocity_out = f32_out(s, args, 1);
  const __m512 rate = _mm512_set1_ps(f32_in(s, args, 3)[0]), momentum = _mm512_set1_ps(s->attrs.momentum);
  const __m512 decay = _mm512_set1_ps(s->attrs.weight_decay), scale = clipped(s, args, 4);
  const Range range = elements_of(s, phase, slice, s->g.count);
  for (std::int64_t i = range.begin; i < range.end; i += 16) {
    const __mmask16 mask = lanes(range.end - i);
    const __m512 weight = _mm512_maskz_loadu_ps(mask, w + i);
    const __m512 scaled = _mm512_mul_ps(scale, _mm512_maskz_loadu_ps(mask, dw + i));
    const __m512 gradient = _mm512_fmadd_ps(decay, weight, scaled);
    __m512 moved = gradient;
    if (velocity) moved = _mm512_fmadd_ps(momentum, _mm512_maskz_loadu_ps(mask, velocity + i), gradient);
    if (velocity_out) _mm512_mask_storeu_ps(velocity_out + i, mask, moved);
    const __m512 change = s->attrs.nesterov ? _mm512_fmadd_ps(momentum, moved, gradient) : moved;
    _mm512_mask_storeu_ps(w_out + i, mask, _mm512_fnmadd_ps(rate, change, weight));
  }
}

void adamw(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const float *w = f32_in(s, args, 0), *dw = f32_in(s, args, 1), *m = f32_in(s, args, 2), *v = f32_in(s, args, 3);
  float *w_out = f32_out(s, args, 0), *m_out = f32_out(s, args, 1), *v_out = f32_out(s, args, 2);
  const double rate = f32_in(s, args, 4)[0], beta1 = s->attrs.beta1, beta2 = s->attrs.beta2;
  const double steps = static_cast<double>(args.step) + 1.0;
  const __m512 step = _mm512_set1_ps(static_cast<float>(rate / (1.0 - pow(beta1, steps))));
  const __m512 correction = _mm512_set1_ps(static_cast<float>(1.0 / (1.0 - pow(beta2, steps))));
  const __m512 kept = _mm512_set1_ps(static_cast<float>(1.0 - rate * s->attrs.weight_decay));
  const __m512 epsilon = _mm512_set1_ps(s->attrs.epsilon), scale = clipped(s, args, 5);
  const __m512 keep1 = _mm512_set1_ps(s->attrs.beta1), take1 = _mm512_set1_ps(static_cast<float>(1.0 - beta1));
  const __m512 keep2 = _mm512_set1_ps(s->attrs.beta2), take2 = _mm512_set1_ps(static_cast<float>(1.0 - beta2));
  const Range range = elements_of(s, phase, slice, s->g.count);
  for (std::int64_t i = range.begin; i < range.end; i += 16) {
    const __mmask16 mask = lanes(range.end - i);
    const __m512 gradient = _mm512_mul_ps(scale, _mm512_maskz_loadu_ps(mask, dw + i));
    const __m512 square = _mm512_mul_ps(gradient, gradient);
    const __m512 first = _mm512_fmadd_ps(keep1, _mm512_maskz_loadu_ps(mask, m + i), _mm512_mul_ps(take1, gradient));
    const __m512 second = _mm512_fmadd_ps(keep2, _mm512_maskz_loadu_ps(mask, v + i), _mm512_mul_ps(take2, square));
    const __m512 root = _mm512_add_ps(_mm512_sqrt_ps(_mm512_mul_ps(second, correction)), epsilon);
    const __m512 change = _mm512_div_ps(_mm512_mul_ps(step, first), root);
    _mm512_mask_storeu_ps(w_out + i, mask, _mm512_fmsub_ps(kept, _mm512_maskz_loadu_ps(mask, w + i), change));
    _mm512_mask_storeu_ps(m_out + i, mask, first);
    _mm512_mask_storeu_ps(v_out + i, mask, second);
  }
}

void lion(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const float *w = f32_in(s, args, 0), *dw = f32_in(s, args, 1), *m = f32_in(s, args, 2);
  float *w_out = f32_out(s, args, 0), *m_out = f32_out(s, args, 1);
  const double rate = f32_in(s, args, 3)[0], beta1 = s->attrs.beta1, beta2 = s->attrs.beta2;
  const __m512 step = _mm512_set1_ps(static_cast<float>(rate)), scale = clipped(s, args, 4);
  const __m512 kept = _mm512_set1_ps(static_cast<float>(1.0 - rate * s->attrs.weight_decay));
  const __m512 keep1 = _mm512_set1_ps(s->attrs.beta1), take1 = _mm512_set1_ps(static_cast<float>(1.0 - beta1));
  const __m512 keep2 = _mm512_set1_ps(s->attrs.beta2), take2 = _mm512_set1_ps(static_cast<float>(1.0 - beta2));
  const __m512 zero = _mm512_setzero_ps(), one = _mm512_set1_ps(1.0f);
  const Range range = elements_of(s, phase, slice, s->g.count);
  for (std::int64_t i = range.begin; i < range.end; i += 16) {
    const __mmask16 mask = lanes(range.end - i);
    const __m512 gradient = _mm512_mul_ps(scale, _mm512_maskz_loadu_ps(mask, dw + i));
    const __m512 old = _mm512_maskz_loadu_ps(mask, m + i);
    const __m512 mixed = _mm512_fmadd_ps(keep1, old, _mm512_mul_ps(take1, gradient));
    __m512 sign = _mm512_mask_mov_ps(mixed, _mm512_cmp_ps_mask(mixed, zero, _CMP_GT_OQ), one);  // NaN and 0 stay
    sign = _mm512_mask_sub_ps(sign, _mm512_cmp_ps_mask(mixed, zero, _CMP_LT_OQ), zero, one);
    const __m512 weight = _mm512_mul_ps(kept, _mm512_maskz_loadu_ps(mask, w + i));
    _mm512_mask_storeu_ps(w_out + i, mask, _mm512_fnmadd_ps(step, sign, weight));
    _mm512_mask_storeu_ps(m_out + i, mask, _mm512_fmadd_ps(keep2, old, _mm512_mul_ps(take2, gradient)));
  }
}

}  // namespace

bool prepare_optimizer(const Problem& problem, Plan& plan) {
  Run run = sgd;
  if (problem.op == Op::kAdamW) run = adamw;
  if (problem.op == Op::kLion) run = lion;
  State* s = new_state(problem, plan, run);
  if (!s) return false;
  cut(s, plan, 0, (s->g.count + kBlock - 1) / kBlock, s->g.count * 16);
  return true;
}

}  // namespace mlx::kernels::avx512
