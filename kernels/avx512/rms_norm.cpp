// AVX-512 RMS norm over the last dim and its gradient. A row's bits do not depend on the other rows.
#include <math.h>

#include "kernels/avx512/lanes.h"

namespace mlx::kernels::avx512 {
namespace {

void forward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const std::int64_t width = s->g.width;
  const float* gamma = f32_in(s, args, 1);
  const Range rows = range_of(s, phase, slice);
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    const float* x = f32_in(s, args, 0) + r * width;
    float* y = f32_out(s, args, 0) + r * width;
    __m512 squares = _mm512_setzero_ps();
    for (std::int64_t i = 0; i < width; i += 16) {
      const __m512 value = _mm512_maskz_loadu_ps(lanes(width - i), x + i);
      squares = _mm512_fmadd_ps(value, value, squares);
    }
    const double mean = double{_mm512_reduce_add_ps(squares)} / static_cast<double>(width);
    const auto rstd = static_cast<float>(1.0 / sqrt(mean + double{s->attrs.epsilon}));
    for (std::int64_t i = 0; i < width; i += 16) {
      const __mmask16 mask = lanes(width - i);
      const __m512 normal = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + i), _mm512_set1_ps(rstd));
      _mm512_mask_storeu_ps(y + i, mask, _mm512_mul_ps(normal, _mm512_maskz_loadu_ps(mask, gamma + i)));
    }
    if (s->g.has_output[1]) f32_out(s, args, 1)[r] = rstd;
  }
}

// dx of one row; adds its share of dgamma to the slice's sums. The formula stands in ref/rms_norm.cpp.
void backward_row(const State* s, const Args& args, std::int64_t r, float* dgamma) {
  const std::int64_t width = s->g.width;
  const float *x = f32_in(s, args, 0) + r * width, *dy = f32_in(s, args, 1) + r * width, *gamma = f32_in(s, args, 2);
  float* dx = f32_out(s, args, 0) + r * width;
  const __m512 rstd = _mm512_set1_ps(f32_in(s, args, 3)[r]);
  __m512 weighted = _mm512_setzero_ps();
  for (std::int64_t i = 0; i < width; i += 16) {
    const __mmask16 mask = lanes(width - i);
    const __m512 d = _mm512_maskz_loadu_ps(mask, dy + i);
    const __m512 normal = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + i), rstd);
    weighted = _mm512_fmadd_ps(_mm512_mul_ps(d, _mm512_maskz_loadu_ps(mask, gamma + i)), normal, weighted);
    _mm512_mask_storeu_ps(dgamma + i, mask, _mm512_fmadd_ps(d, normal, _mm512_maskz_loadu_ps(mask, dgamma + i)));
  }
  const __m512 slope = _mm512_set1_ps(_mm512_reduce_add_ps(weighted) / static_cast<float>(width));
  for (std::int64_t i = 0; i < width; i += 16) {
    const __mmask16 mask = lanes(width - i);
    const __m512 normal = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + i), rstd);
    const __m512 g = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, dy + i), _mm512_maskz_loadu_ps(mask, gamma + i));
    _mm512_mask_storeu_ps(dx + i, mask, _mm512_mul_ps(rstd, _mm512_fnmadd_ps(normal, slope, g)));
  }
}

// Phase 0, by row: dx and each slice's dgamma; phase 1, by column: those added in slice order.
void backward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const std::int64_t width = s->g.width;
  auto* partial = static_cast<float*>(args.workspace);
  const Range range = range_of(s, phase, slice);
  if (phase == 0) {
    float* own = partial + width * slice;
    for (std::int64_t i = 0; i < width; ++i) own[i] = 0.0f;
    for (std::int64_t r = range.begin; r < range.end; ++r) backward_row(s, args, r, own);
    return;
  }
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    double sum = 0.0;
    for (int from = 0; from < s->slices[0]; ++from) sum += partial[width * from + i];
    f32_out(s, args, 1)[i] = static_cast<float>(sum);
  }
}

}  // namespace

bool prepare_rms_norm(const Problem& problem, Plan& plan) {
  const bool back = problem.op == Op::kRmsNormBackward;
  State* s = new_state(problem, plan, back ? backward : forward);
  if (!s) return false;
  cut(s, plan, 0, s->g.rows, s->g.count * 8);
  if (back) {
    cut(s, plan, 1, s->g.width, s->g.width * s->slices[0] * 8);
    plan.workspace_bytes = bytes_of(s->slices[0] * s->g.width, sizeof(float));
  }
  return true;
}

}  // namespace mlx::kernels::avx512
