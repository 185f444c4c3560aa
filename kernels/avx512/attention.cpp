// AVX-512 causal self-attention, whole and with a cache, and its gradient. Sliced by (sequence, head).
//
// One query's output is computed by one function over keys 0 … p in order, wherever they lie, so that decoding gives
// the bits of full evaluation here as in ref.
#include <math.h>

#include "kernels/avx512/lanes.h"

namespace mlx::kernels::avx512 {
namespace {

inline float dot(const float* a, const float* b, std::int64_t size) {
  __m512 sum = _mm512_setzero_ps();
  for (std::int64_t i = 0; i < size; i += 16) {
    const __mmask16 mask = lanes(size - i);
    sum = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask, a + i), _mm512_maskz_loadu_ps(mask, b + i), sum);
  }
  return _mm512_reduce_add_ps(sum);
}

// y += factor * x
inline void add_scaled(float* y, const float* x, float factor, std::int64_t size) {
  for (std::int64_t i = 0; i < size; i += 16) {
    const __mmask16 mask = lanes(size - i);
    const __m512 old = _mm512_maskz_loadu_ps(mask, y + i);
    _mm512_mask_storeu_ps(y + i, mask,
                          _mm512_fmadd_ps(_mm512_set1_ps(factor), _mm512_maskz_loadu_ps(mask, x + i), old));
  }
}

// Row i of keys is at keys + i * stride, of values likewise; `weights` is scratch for `count` floats. Returns
// log-sum-exp.
float attend(const float* query, const float* keys, const float* values, std::int64_t stride, std::int64_t count,
             std::int64_t size, float* weights, float* y) {
  const auto scale = static_cast<float>(1.0 / sqrt(static_cast<double>(size)));
  float max = -__builtin_inff();
  for (std::int64_t j = 0; j < count; ++j) {
    weights[j] = scale * dot(query, keys + j * stride, size);
    max = weights[j] > max ? weights[j] : max;
  }
  __m512 sum = _mm512_setzero_ps();
  for (std::int64_t j = 0; j < count; j += 16) {
    const __mmask16 mask = lanes(count - j);
    const __m512 e = exp16(_mm512_sub_ps(_mm512_maskz_loadu_ps(mask, weights + j), _mm512_set1_ps(max)));
    sum = _mm512_mask_add_ps(sum, mask, sum, e);
    _mm512_mask_storeu_ps(weights + j, mask, e);
  }
  const float total = _mm512_reduce_add_ps(sum);
  for (std::int64_t i = 0; i < size; i += 64) {
    __m512 out[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps()};
    for (std::int64_t j = 0; j < count; ++j)
      for (int v = 0; v < 4 && i + 16 * v < size; ++v) {
        const __m512 value = _mm512_maskz_loadu_ps(lanes(size - i - 16 * v), values + j * stride + i + 16 * v);
        out[v] = _mm512_fmadd_ps(_mm512_set1_ps(weights[j]), value, out[v]);
      }
    for (int v = 0; v < 4 && i + 16 * v < size; ++v)
      _mm512_mask_storeu_ps(y + i + 16 * v, lanes(size - i - 16 * v), _mm512_div_ps(out[v], _mm512_set1_ps(total)));
  }
  return static_cast<float>(max + log(double{total}));
}

// Where one (sequence, head) lies in qkv and in y.
struct Item {
  std::int64_t batch, size, stride;
  const float *q, *k, *v;
  std::int64_t y;
};
inline Item item_of(const State* s, const float* qkv, std::int64_t i) {
  const std::int64_t batch = i / s->g.heads, head = i % s->g.heads, size = s->g.dim / s->g.heads, stride = 3 * s->g.dim;
  const float* q = qkv + batch * s->g.time * stride + head * size;
  return {batch, size, stride, q, q + s->g.dim, q + 2 * s->g.dim, batch * s->g.time * s->g.dim + head * size};
}

void forward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  float* weights = static_cast<float*>(args.workspace) + slice * s->g.time;
  const Range items = range_of(s, phase, slice);
  for (std::int64_t i = items.begin; i < items.end; ++i) {
    const Item item = item_of(s, f32_in(s, args, 0), i);
    float* y = f32_out(s, args, 0) + item.y;
    for (std::int64_t t = 0; t < s->g.time; ++t) {
      const float lse =
          attend(item.q + t * item.stride, item.k, item.v, item.stride, t + 1, item.size, weights, y + t * s->g.dim);
      if (s->g.has_output[1]) f32_out(s, args, 1)[i * s->g.time + t] = lse;
    }
  }
}

void cached(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const std::int64_t dim = s->g.dim, time = s->g.time;
  float* weights = static_cast<float*>(args.workspace) + slice * s->g.table;
  const Range items = range_of(s, phase, slice);
  for (std::int64_t i = items.begin; i < items.end; ++i) {
    const Item item = item_of(s, f32_in(s, args, 0), i);
    const std::int64_t at = item.batch * s->g.table * dim + i % s->g.heads * item.size;
    float *keys = f32_out(s, args, 1) + at, *values = f32_out(s, args, 2) + at, *y = f32_out(s, args, 0) + item.y;
    const std::int64_t held = s32_in(s, args, 3)[item.batch];
    const bool fits = held >= 0 && held + time <= s->g.table;
    for (std::int64_t t = 0; t < time; ++t)
      for (std::int64_t d = 0; d < item.size; ++d) {
        y[t * dim + d] = 0.0f;
        if (!fits) continue;
        keys[(held + t) * dim + d] = item.k[t * item.stride + d];
        values[(held + t) * dim + d] = item.v[t * item.stride + d];
      }
    for (std::int64_t t = 0; fits && t < time; ++t)
      attend(item.q + t * item.stride, keys, values, dim, held + t + 1, item.size, weights, y + t * dim);
  }
}

// The formulas stand in ref/attention.cpp.
void backward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const std::int64_t time = s->g.time, dim = s->g.dim;
  float* weights = static_cast<float*>(args.workspace) + slice * time;
  const Range items = range_of(s, phase, slice);
  for (std::int64_t i = items.begin; i < items.end; ++i) {
    const Item item = item_of(s, f32_in(s, args, 0), i);
    const std::int64_t size = item.size, stride = item.stride;
    const float *y = f32_in(s, args, 1) + item.y, *dy = f32_in(s, args, 3) + item.y;
    float* dq = f32_out(s, args, 0) + item.batch * time * stride + i % s->g.heads * size;
    float *dk = dq + dim, *dv = dk + dim;
    for (std::int64_t t = 0; t < time; ++t)
      for (std::int64_t d = 0; d < size; ++d) dq[t * stride + d] = dk[t * stride + d] = dv[t * stride + d] = 0.0f;
    const auto scale = static_cast<float>(1.0 / sqrt(static_cast<double>(size)));
    for (std::int64_t t = 0; t < time; ++t) {
      const float *query = item.q + t * stride, *gradient = dy + t * dim;
      for (std::int64_t j = 0; j <= t; ++j) weights[j] = scale * dot(query, item.k + j * stride, size);
      const __m512 lse = _mm512_set1_ps(f32_in(s, args, 2)[i * time + t]);
      for (std::int64_t j = 0; j <= t; j += 16) {
        const __mmask16 mask = lanes(t + 1 - j);
        _mm512_mask_storeu_ps(weights + j, mask, exp16(_mm512_sub_ps(_mm512_maskz_loadu_ps(mask, weights + j), lse)));
      }
      const float own = dot(gradient, y + t * dim, size);
      for (std::int64_t j = 0; j <= t; ++j) {
        const float slope = weights[j] * (dot(gradient, item.v + j * stride, size) - own) * scale;
        add_scaled(dv + j * stride, gradient, weights[j], size);
        add_scaled(dq + t * stride, item.k + j * stride, slope, size);
        add_scaled(dk + j * stride, query, slope, size);
      }
    }
  }
}

}  // namespace

bool prepare_attention(const Problem& problem, Plan& plan) {
  const bool whole = problem.op == Op::kAttention;
  State* s = new_state(problem, plan, whole ? forward : problem.op == Op::kAttentionCached ? cached : backward);
  if (!s) return false;
  const std::int64_t held = problem.op == Op::kAttentionCached ? s->g.table : s->g.time;
  cut(s, plan, 0, s->g.batch * s->g.heads, s->g.count * held);
  plan.workspace_bytes = bytes_of(s->slices[0] * held, sizeof(float));
  return true;
}

}  // namespace mlx::kernels::avx512
