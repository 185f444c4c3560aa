// Attention in both directions (op_list.h, kBidirectionalAttention): blockwise with a running maximum, as
// attention.cpp.
#include "kernels/cache_blocks.h"
#include "kernels/simd/attention_forward.h"

namespace mlx::kernels::MLX_ISA {
namespace {

// Turns the scores of a block into weights e^(score - maximum), and updates maximum and total. `factor` is what earlier
// sums must be multiplied by.
void weigh_all(const Scratch& at, std::int64_t lane, std::int64_t count) {
  const Floats before = load(at.max + lane);
  Floats most = before, total = zeros();
  for (std::int64_t j = 0; j < count; ++j) most = max(most, load(at.scores + j * kTile + lane));
  for (std::int64_t j = 0; j < count; ++j) {
    float* score = at.scores + j * kTile + lane;
    const Floats weight = exp16(load(score) - most);
    total = total + weight;
    store(score, weight);
  }
  const Floats factor = exp16(before - most);
  store(at.max + lane, most);
  store(at.factor + lane, factor);
  store(at.total + lane, fma(load(at.total + lane), factor, total));
}

// The queries first … end-1 of a head attend to its first `length` keys. y: the row of `first`.
template <int kVectors>
void attend_tile_to_all(const Head& head, std::int64_t first, std::int64_t end, std::int64_t length, float scale,
                        const Scratch& at, float* y, std::int64_t y_stride) {
  const std::int64_t size = head.size, rows = end - first;
  to_lanes(head.q + first * head.stride, head.stride, 0, rows, size, scale, at.x);
  for (std::int64_t lane = 0; lane < kTile; lane += 16) {
    store(at.max + lane, broadcast(-__builtin_inff()));
    store(at.total + lane, zeros());
  }
  for (std::int64_t i = 0; i < kTile * size; ++i) at.sums[i] = 0.0f;
  for (std::int64_t block = 0; block < length; block += kKeys) {
    const std::int64_t count = length - block < kKeys ? length - block : kKeys;
    score<kVectors>(at.x, head.k + block * head.stride, head.stride, count, size, at.scores);
    for (int v = 0; v < kVectors; ++v) weigh_all(at, 16 * v, count);
    for (std::int64_t r = 0; block > 0 && r < rows; ++r) shrink(at.sums + r * size, at.factor[r], size);
    for (std::int64_t r = 0; r < rows; r += 4)
      accumulate(at.sums + r * size, size, rows - r < 4 ? rows - r : 4, {at.scores + r, 1, kTile},
                 head.v + block * head.stride, head.stride, count, size);
  }
  for (std::int64_t r = 0; r < rows; ++r) divide(at.sums + r * size, at.total[r], size, y + r * y_stride);
}

void both_directions(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Scratch at = scratch_of(args.workspace, slice, s->g.head);
  const float scale = scoring_of(s).scale;
  const std::int64_t width = s->g.dim;
  const Range heads = range_of(s, phase, slice);
  for (std::int64_t i = heads.begin; i < heads.end; ++i) {
    const Head head = head_of(s, f32_in(s, args, 0), i);
    const std::int64_t length = length_of(s->g, s32_in(s, args, 1), head.batch);
    float* const y = f32_out(s, args, 0) + head.y;
    for (std::int64_t first = 0; first < length; first += kTile) {
      const std::int64_t end = first + kTile < length ? first + kTile : length;
      if (end - first <= 16)
        attend_tile_to_all<1>(head, first, end, length, scale, at, y + first * width, width);
      else
        attend_tile_to_all<2>(head, first, end, length, scale, at, y + first * width, width);
    }
    for (std::int64_t t = length; t < s->g.time; ++t)
      for (std::int64_t d = 0; d < head.size; ++d) y[t * width + d] = 0.0f;
  }
}

}  // namespace

bool prepare_bidirectional_attention(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, both_directions);
  if (!s) return false;
  cut(s, plan, 0, s->g.batch * s->g.heads, s->g.count * s->g.time);
  plan.workspace_bytes = bytes_of(s->slices[0] * floats_of(s->g.head), sizeof(float));
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
