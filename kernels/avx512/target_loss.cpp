// AVX-512 losses against targets of the same shape: sigmoid cross-entropy, squared error and Huber, with gradients.
#include <math.h>

#include "kernels/avx512/lanes.h"

namespace mlx::kernels::avx512 {
namespace {

// What phase 0 leaves of each slice for phase 1.
struct Part {
  double loss;
  std::int64_t correct;
};

// Sixteen sums in double precision.
struct Sums {
  __m512d low = _mm512_setzero_pd(), high = _mm512_setzero_pd();
  void add(__m512 x) {
    low = _mm512_add_pd(low, _mm512_cvtps_pd(_mm512_castps512_ps256(x)));
    high = _mm512_add_pd(high, _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)));
  }
  double total() const { return _mm512_reduce_add_pd(_mm512_add_pd(low, high)); }
};

// Sum of log(1 + e) for e in [0, 1]: the factors are multiplied, as many as a double has room for, and one logarithm is
// taken of each product.
struct LogSums {
  __m512d low = _mm512_set1_pd(1.0), high = _mm512_set1_pd(1.0);
  double sum = 0.0;
  int factors = 0;
  void add(__m512 e) {
    low = _mm512_fmadd_pd(low, _mm512_cvtps_pd(_mm512_castps512_ps256(e)), low);
    high = _mm512_fmadd_pd(high, _mm512_cvtps_pd(_mm512_extractf32x8_ps(e, 1)), high);
    if (++factors == 500) take();
  }
  void take() {
    double product[16];
    _mm512_storeu_pd(product, low), _mm512_storeu_pd(product + 8, high);
    for (double p : product) sum += log(p);
    low = high = _mm512_set1_pd(1.0);
    factors = 0;
  }
};

Part binary(const State* s, const float* x, const float* t, float* dx, Range range) {
  const __m512 one = _mm512_set1_ps(1.0f), zero = _mm512_setzero_ps();
  const __m512 keep = _mm512_set1_ps(1.0f - s->attrs.rate), share = _mm512_set1_ps(0.5f * s->attrs.rate);
  const __m512 scale = _mm512_set1_ps(1.0f / static_cast<float>(s->g.count));
  Sums linear;
  LogSums logs;
  std::int64_t correct = 0;
  for (std::int64_t i = range.begin; i < range.end; i += 16) {
    const __mmask16 mask = lanes(range.end - i);
    const __m512 v = _mm512_maskz_loadu_ps(mask, x + i), truth = _mm512_maskz_loadu_ps(mask, t + i);
    const __m512 target = _mm512_fmadd_ps(truth, keep, share);
    const __m512 e = exp16(_mm512_sub_ps(zero, _mm512_abs_ps(v)));
    linear.add(_mm512_maskz_fnmadd_ps(mask, v, target, relu16(v)));
    logs.add(_mm512_maskz_mov_ps(mask, e));
    correct += __builtin_popcount(mask & ~(_mm512_cmp_ps_mask(v, zero, _CMP_GT_OQ) ^
                                           _mm512_cmp_ps_mask(truth, _mm512_set1_ps(0.5f), _CMP_GT_OQ)));
    if (!dx) continue;
    // (1 - t) sigmoid(x) - t sigmoid(-x): unlike sigmoid(x) - t it keeps its digits where the label is certain.
    const __mmask16 negative = _mm512_cmp_ps_mask(v, zero, _CMP_LT_OQ);
    const __m512 large = _mm512_div_ps(one, _mm512_add_ps(one, e)), small = _mm512_mul_ps(e, large);
    const __m512 up = _mm512_mask_blend_ps(negative, large, small), down = _mm512_mask_blend_ps(negative, small, large);
    const __m512 gradient = _mm512_fmsub_ps(_mm512_sub_ps(one, target), up, _mm512_mul_ps(target, down));
    _mm512_mask_storeu_ps(dx + i, mask, _mm512_mul_ps(gradient, scale));
  }
  logs.take();
  return {linear.total() + logs.sum, correct};
}

Part regression(const State* s, const float* x, const float* t, float* dx, Range range) {
  const __m512 delta = _mm512_set1_ps(s->attrs.delta), half_delta = _mm512_set1_ps(0.5f * s->attrs.delta);
  const __m512 inverse = _mm512_set1_ps(1.0f / static_cast<float>(s->g.count)), half = _mm512_set1_ps(0.5f);
  const bool huber = s->attrs.delta > 0.0f;
  Sums sums;
  for (std::int64_t i = range.begin; i < range.end; i += 16) {
    const __mmask16 mask = lanes(range.end - i);
    const __m512 d = _mm512_sub_ps(_mm512_maskz_loadu_ps(mask, x + i), _mm512_maskz_loadu_ps(mask, t + i));
    __m512 loss = _mm512_mul_ps(d, d), gradient = _mm512_add_ps(d, d);
    if (huber) {
      const __m512 size = _mm512_abs_ps(d);
      const __mmask16 far = _mm512_cmp_ps_mask(size, delta, _CMP_GT_OQ);
      loss = _mm512_mask_mul_ps(_mm512_mul_ps(half, loss), far, delta, _mm512_sub_ps(size, half_delta));
      const __m512 sign = _mm512_and_ps(d, _mm512_set1_ps(-0.0f));
      gradient = _mm512_mask_or_ps(d, far, delta, sign);
    }
    sums.add(loss);
    if (dx) _mm512_mask_storeu_ps(dx + i, mask, _mm512_mul_ps(gradient, inverse));
  }
  return {sums.total(), 0};
}

template <bool kBinary>
void target_loss(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  auto* parts = static_cast<Part*>(args.workspace);
  if (phase == 0) {
    const Range range = elements_of(s, phase, slice, s->g.count);
    const float *x = f32_in(s, args, 0), *t = f32_in(s, args, 1);
    float* dx = f32_out(s, args, 1);
    parts[slice] = kBinary ? binary(s, x, t, dx, range) : regression(s, x, t, dx, range);
    return;
  }
  Part sum{0.0, 0};
  for (int i = 0; i < s->slices[0]; ++i) sum.loss += parts[i].loss, sum.correct += parts[i].correct;
  f32_out(s, args, 0)[0] = s->g.count ? static_cast<float>(sum.loss / static_cast<double>(s->g.count)) : 0.0f;
  if (s->g.has_output[2]) s32_out(s, args, 2)[0] = static_cast<std::int32_t>(sum.correct);
  if (s->g.has_output[3]) s32_out(s, args, 3)[0] = static_cast<std::int32_t>(s->g.count);
}

}  // namespace

bool prepare_target_loss(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, problem.op == Op::kBinaryCrossEntropy ? target_loss<true> : target_loss<false>);
  if (!s) return false;
  cut(s, plan, 0, (s->g.count + kBlock - 1) / kBlock, s->g.count * 12);
  cut(s, plan, 1, 1, 0);
  plan.workspace_bytes = bytes_of(plan.slices[0], sizeof(Part));
  return true;
}

}  // namespace mlx::kernels::avx512
