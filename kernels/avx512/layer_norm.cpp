// AVX-512 layer norm over the last dim and its gradient. A row's bits do not depend on the other rows.
#include <math.h>

#include "kernels/avx512/lanes.h"

namespace mlx::kernels::avx512 {
namespace {

void forward_row(const State* s, const Args& args, std::int64_t r) {
  const std::int64_t width = s->g.width;
  const float *x = f32_in(s, args, 0) + r * width, *gamma = f32_in(s, args, 1), *beta = f32_in(s, args, 2);
  float* y = f32_out(s, args, 0) + r * width;
  __m512 sum = _mm512_setzero_ps();
  for (std::int64_t i = 0; i < width; i += 16) sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(lanes(width - i), x + i));
  const float mean = _mm512_reduce_add_ps(sum) / static_cast<float>(width);
  __m512 square = _mm512_setzero_ps();
  for (std::int64_t i = 0; i < width; i += 16) {
    const __mmask16 mask = lanes(width - i);
    const __m512 off = _mm512_maskz_sub_ps(mask, _mm512_maskz_loadu_ps(mask, x + i), _mm512_set1_ps(mean));
    square = _mm512_fmadd_ps(off, off, square);
  }
  const double variance = double{_mm512_reduce_add_ps(square)} / static_cast<double>(width);
  const auto rstd = static_cast<float>(1.0 / sqrt(variance + double{s->attrs.epsilon}));
  for (std::int64_t i = 0; i < width; i += 16) {
    const __mmask16 mask = lanes(width - i);
    const __m512 off = _mm512_sub_ps(_mm512_maskz_loadu_ps(mask, x + i), _mm512_set1_ps(mean));
    const __m512 normal = _mm512_mul_ps(off, _mm512_set1_ps(rstd));
    const __m512 shift = _mm512_maskz_loadu_ps(mask, beta + i);
    _mm512_mask_storeu_ps(y + i, mask, _mm512_fmadd_ps(normal, _mm512_maskz_loadu_ps(mask, gamma + i), shift));
  }
  if (s->g.has_output[1]) f32_out(s, args, 1)[r] = mean;
  if (s->g.has_output[2]) f32_out(s, args, 2)[r] = rstd;
}

void forward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Range rows = range_of(s, phase, slice);
  for (std::int64_t r = rows.begin; r < rows.end; ++r) forward_row(s, args, r);
}

// dx of one row; adds its share of dgamma and dbeta to the slice's sums.
void backward_row(const State* s, const Args& args, std::int64_t r, float* dgamma, float* dbeta) {
  const std::int64_t width = s->g.width;
  const float *x = f32_in(s, args, 0) + r * width, *dy = f32_in(s, args, 1) + r * width, *gamma = f32_in(s, args, 2);
  float* dx = f32_out(s, args, 0) + r * width;
  const __m512 mean = _mm512_set1_ps(f32_in(s, args, 3)[r]), rstd = _mm512_set1_ps(f32_in(s, args, 4)[r]);
  __m512 plain = _mm512_setzero_ps(), weighted = _mm512_setzero_ps();
  for (std::int64_t i = 0; i < width; i += 16) {
    const __mmask16 mask = lanes(width - i);
    const __m512 g = _mm512_maskz_loadu_ps(mask, dy + i);
    const __m512 off = _mm512_maskz_sub_ps(mask, _mm512_maskz_loadu_ps(mask, x + i), mean);
    const __m512 normal = _mm512_mul_ps(off, rstd), d = _mm512_mul_ps(g, _mm512_maskz_loadu_ps(mask, gamma + i));
    plain = _mm512_add_ps(plain, d);
    weighted = _mm512_fmadd_ps(d, normal, weighted);
    const __m512 old = _mm512_maskz_loadu_ps(mask, dgamma + i);
    _mm512_mask_storeu_ps(dgamma + i, mask, _mm512_fmadd_ps(g, normal, old));
    _mm512_mask_storeu_ps(dbeta + i, mask, _mm512_add_ps(_mm512_maskz_loadu_ps(mask, dbeta + i), g));
  }
  const float share = 1.0f / static_cast<float>(width);
  const __m512 average = _mm512_set1_ps(_mm512_reduce_add_ps(plain) * share);
  const __m512 slope = _mm512_set1_ps(_mm512_reduce_add_ps(weighted) * share);
  for (std::int64_t i = 0; i < width; i += 16) {
    const __mmask16 mask = lanes(width - i);
    const __m512 normal = _mm512_mul_ps(_mm512_sub_ps(_mm512_maskz_loadu_ps(mask, x + i), mean), rstd);
    const __m512 d = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, dy + i), _mm512_maskz_loadu_ps(mask, gamma + i));
    const __m512 inner = _mm512_fnmadd_ps(normal, slope, _mm512_sub_ps(d, average));
    _mm512_mask_storeu_ps(dx + i, mask, _mm512_mul_ps(rstd, inner));
  }
}

// Phase 0, by row: dx and each slice's dgamma and dbeta; phase 1, by column: those added in slice order.
void backward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const std::int64_t width = s->g.width;
  auto* partial = static_cast<float*>(args.workspace);
  const Range range = range_of(s, phase, slice);
  if (phase == 0) {
    float* own = partial + 2 * width * slice;
    for (std::int64_t i = 0; i < 2 * width; ++i) own[i] = 0.0f;
    for (std::int64_t r = range.begin; r < range.end; ++r) backward_row(s, args, r, own, own + width);
    return;
  }
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    double weighted = 0.0, plain = 0.0;
    for (int from = 0; from < s->slices[0]; ++from) {
      weighted += partial[2 * width * from + i];
      plain += partial[2 * width * from + width + i];
    }
    f32_out(s, args, 1)[i] = static_cast<float>(weighted);
    f32_out(s, args, 2)[i] = static_cast<float>(plain);
  }
}

}  // namespace

bool prepare_layer_norm(const Problem& problem, Plan& plan) {
  const bool back = problem.op == Op::kLayerNormBackward;
  State* s = new_state(problem, plan, back ? backward : forward);
  if (!s) return false;
  cut(s, plan, 0, s->g.rows, s->g.count * 8);
  if (back) {
    cut(s, plan, 1, s->g.width, s->g.width * s->slices[0] * 8);
    plan.workspace_bytes = bytes_of(2 * s->slices[0] * s->g.width, sizeof(float));
  }
  return true;
}

}  // namespace mlx::kernels::avx512
