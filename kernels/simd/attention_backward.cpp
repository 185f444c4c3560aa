// Gradient of causal self-attention with grouped queries, without windows and caps, which ref has. The scores are
// recomputed, tile by tile (Dao et al. 2022). Sliced by (sequence, key head); tiles of queries are processed in order,
// so each key's sums have one order.
#include "kernels/simd/attention_tile.h"

namespace mlx::kernels::MLX_ISA {
namespace {

struct Scratch {
  float *q, *dy, *weights, *slopes, *own;
};
inline std::int64_t floats_of(std::int64_t size) {
  return 2 * kTile * ((size + 15) / 16 * 16) + 2 * kKeys * kTile + kTile;
}
inline Scratch scratch_of(void* workspace, int slice, std::int64_t size) {
  const std::int64_t tile = kTile * ((size + 15) / 16 * 16);
  float* q = static_cast<float*>(workspace) + slice * floats_of(size);
  float* weights = q + 2 * tile;
  return {q, q + tile, weights, weights + kKeys * kTile, weights + 2 * kKeys * kTile};
}

// Gradients of one head: rows of dqkv.
struct Gradients {
  float *q, *k, *v;
};

inline void clear(float* rows, std::int64_t stride, std::int64_t count, std::int64_t size) {
  for (std::int64_t t = 0; t < count; ++t)
    for (std::int64_t d = 0; d < size; ++d) rows[t * stride + d] = 0.0f;
}

// own[t] = dy_t · y_t.
inline float dot(const float* a, const float* b, std::int64_t size) {
  Floats sum = zeros();
  by_vectors(0, size, [&](std::int64_t i, auto mask) { sum = fma(load(a + i, mask), load(b + i, mask), sum); });
  return lane_sum(sum);
}

// Computes p = e^(score - lse) and the gradients of the scores, p (dy·v - own) scale. Both are zero if the query may
// not attend to the key.
inline void slopes_of(const Scratch& at, std::int64_t lane, std::int64_t position, std::int64_t block,
                      std::int64_t count, Floats lse, float scale) {
  const Floats own = load(at.own + lane);
  for (std::int64_t j = 0; j < count; ++j) {
    float *weight = at.weights + j * kTile + lane, *slope = at.slopes + j * kTile + lane;
    const Floats p = keep(lanes_from(block + j - position), exp16(load(weight) - lse));
    const Floats by = p * broadcast(scale);
    store(weight, p);
    store(slope, by * (load(slope) - own));
  }
}

// Processes `rows` queries from `start` on. The formulas are in ref/attention.cpp.
template <int kVectors>
void backward_tile(const Head& head, const float* y, const float* dy, std::int64_t dim, const float* lse,
                   std::int64_t start, std::int64_t rows, float scale, const Scratch& at, Gradients to) {
  const std::int64_t size = head.size, stride = head.stride, end = start + rows;
  const float *q = head.q + start * stride, *dys = dy + start * dim;
  to_lanes(q, stride, 0, rows, size, scale, at.q);
  to_lanes(dys, dim, 0, rows, size, 1.0f, at.dy);
  for (std::int64_t r = 0; r < kTile; ++r)
    at.own[r] = r < rows ? dot(dys + r * dim, y + (start + r) * dim, size) : 0.0f;
  for (std::int64_t block = 0; block < end; block += kKeys) {
    const std::int64_t count = end - block < kKeys ? end - block : kKeys;
    const float *k = head.k + block * stride, *v = head.v + block * stride;
    score<kVectors>(at.q, k, stride, count, size, at.weights);
    score<kVectors>(at.dy, v, stride, count, size, at.slopes);
    for (std::int64_t lane = 0; lane < 16 * kVectors; lane += 16) {
      const Floats sums = load(lse + start + lane, rows > lane ? lanes(rows - lane) : none());
      slopes_of(at, lane, start + lane, block, count, sums, scale);
    }
    accumulate(to.v + block * stride, stride, count, {at.weights, kTile, 1}, dys, dim, rows, size);
    accumulate(to.k + block * stride, stride, count, {at.slopes, kTile, 1}, q, stride, rows, size);
    accumulate(to.q + start * stride, stride, rows, {at.slopes, 1, kTile}, k, stride, count, size);
  }
}

void backward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Scratch at = scratch_of(args.workspace, slice, s->g.head);
  const std::int64_t time = s->g.time, dim = s->g.dim, queries = s->g.heads / s->g.kv_heads;
  const Range items = range_of(s, phase, slice);
  for (std::int64_t i = items.begin * queries; i < items.end * queries; ++i) {
    const float* qkv = f32_in(s, args, 0);
    const Head head = head_of(s, qkv, i);
    float* dqkv = f32_out(s, args, 0);
    const Gradients to{dqkv + (head.q - qkv), dqkv + (head.k - qkv), dqkv + (head.v - qkv)};
    clear(to.q, head.stride, time, head.size);
    if (i % queries == 0) clear(to.k, head.stride, time, head.size), clear(to.v, head.stride, time, head.size);
    const float *y = f32_in(s, args, 1) + head.y, *dy = f32_in(s, args, 3) + head.y;
    const float* lse = f32_in(s, args, 2) + i * time;
    for (std::int64_t start = 0; start < time; start += kTile) {
      const std::int64_t rows = time - start < kTile ? time - start : kTile;
      if (rows <= 16)
        backward_tile<1>(head, y, dy, dim, lse, start, rows, scoring_of(s).scale, at, to);
      else
        backward_tile<2>(head, y, dy, dim, lse, start, rows, scoring_of(s).scale, at, to);
    }
  }
}

}  // namespace

bool prepare_attention_backward(const Problem& problem, Plan& plan) {
  if (problem.attrs.window > 0 || problem.attrs.cap > 0) return false;
  State* s = new_state(problem, plan, backward);
  if (!s) return false;
  cut(s, plan, 0, s->g.batch * s->g.kv_heads, s->g.count * s->g.time);
  plan.workspace_bytes = bytes_of(s->slices[0] * floats_of(s->g.head), sizeof(float));
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
