// AVX-512 rotary positions on the queries and keys of qkv, and their gradient. In place where the memory is the same.
#include "kernels/rope_table.h"

#include "kernels/avx512/lanes.h"

namespace mlx::kernels::avx512 {
namespace {

// One head: (a, b) becomes (a cos - b sin, b cos + a sin).
inline void rotate_head(const float* x, float* y, const float* turns, std::int64_t half) {
  for (std::int64_t i = 0; i < half; i += 16) {
    const __mmask16 mask = lanes(half - i);
    const __m512 a = _mm512_maskz_loadu_ps(mask, x + i), b = _mm512_maskz_loadu_ps(mask, x + half + i);
    const __m512 cosine = _mm512_maskz_loadu_ps(mask, turns + i), sine = _mm512_maskz_loadu_ps(mask, turns + half + i);
    _mm512_mask_storeu_ps(y + i, mask, _mm512_fnmadd_ps(b, sine, _mm512_mul_ps(a, cosine)));
    _mm512_mask_storeu_ps(y + half + i, mask, _mm512_fmadd_ps(a, sine, _mm512_mul_ps(b, cosine)));
  }
}

void rotate(const void* opaque, const Args& args, int phase, int slice) {
  const auto* s = static_cast<const RopeState*>(opaque);
  const std::int64_t size = s->g.head, turned = s->g.dim + s->g.kv_dim, width = s->g.width;
  const Range rows = range_of(s, phase, slice);
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    const float *turns = turns_of(s, s32_in(s, args, 1), r), *x = f32_in(s, args, 0) + r * width;
    float* y = f32_out(s, args, 0) + r * width;
    for (std::int64_t at = 0; at < turned; at += size) rotate_head(x + at, y + at, turns, size / 2);
    if (x == y) continue;
    for (std::int64_t i = turned; i < width; i += 16) {
      const __mmask16 mask = lanes(width - i);
      _mm512_mask_storeu_ps(y + i, mask, _mm512_maskz_loadu_ps(mask, x + i));
    }
  }
}

}  // namespace

bool prepare_rope(const Problem& problem, Plan& plan) {
  State* s = new_rope_state(problem, plan, rotate);
  if (!s) return false;
  cut(s, plan, 0, s->g.rows, s->g.count * 8);
  return true;
}

}  // namespace mlx::kernels::avx512
