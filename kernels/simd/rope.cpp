// Rotary positions on the queries and keys of qkv, and their gradient. Works in place if input and output are the same
// memory.
#include "kernels/rope_table.h"

#include "kernels/simd/lanes.h"

namespace mlx::kernels::MLX_ISA {
namespace {

// One head: (a, b) becomes (a cos - b sin, b cos + a sin).
inline void rotate_head(const float* x, float* y, const float* turns, std::int64_t half) {
  by_vectors(0, half, [&](std::int64_t i, auto mask) {
    const Floats a = load(x + i, mask), b = load(x + half + i, mask);
    const Floats cosine = load(turns + i, mask), sine = load(turns + half + i, mask);
    store(y + i, fnma(b, sine, a * cosine), mask);
    store(y + half + i, fma(a, sine, b * cosine), mask);
  });
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
    by_vectors(turned, width, [&](std::int64_t i, auto mask) { store(y + i, load(x + i, mask), mask); });
  }
}

}  // namespace

bool prepare_rope(const Problem& problem, Plan& plan) {
  State* s = new_rope_state(problem, plan, rotate);
  if (!s) return false;
  cut(s, plan, 0, s->g.rows, s->g.count * 8);
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
