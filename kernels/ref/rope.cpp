// Reference rotary positions (Su et al. 2021) on the queries and keys of qkv, and their gradient, the inverse rotation.
#include "kernels/ref/ref.h"
#include "kernels/rope_table.h"

namespace mlx::kernels::ref {
namespace {

void rotate(const void* opaque, const Args& args, int phase, int slice) {
  const auto* s = static_cast<const RopeState*>(opaque);
  const std::int64_t size = s->g.head, half = size / 2, turned = s->g.dim + s->g.kv_dim, width = s->g.width;
  const float* x = f32_in(s, args, 0);
  float* y = f32_out(s, args, 0);
  const Range rows = range_of(s, phase, slice);
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    const float* turns = turns_of(s, s32_in(s, args, 1), r);
    for (std::int64_t at = r * width; at < r * width + turned; at += size)
      for (std::int64_t i = 0; i < half; ++i) {
        const double a = x[at + i], b = x[at + half + i], cosine = turns[i], sine = turns[half + i];
        y[at + i] = static_cast<float>(a * cosine - b * sine);
        y[at + half + i] = static_cast<float>(b * cosine + a * sine);
      }
    for (std::int64_t at = r * width + turned; at < (r + 1) * width; ++at) y[at] = x[at];
  }
}

}  // namespace

bool prepare_rope(const Problem& problem, Plan& plan) {
  State* s = new_rope_state(problem, plan, rotate);
  if (!s) return false;
  cut(s, plan, 0, s->g.rows, s->g.count * 8);
  return true;
}

}  // namespace mlx::kernels::ref
