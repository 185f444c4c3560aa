// Causal self-attention with grouped queries on CUDA (Vaswani et al. 2017, Ainslie et al. 2023), with and without a
// cache, and its gradient: in f32, and in half precision if flash_attention.cu declines. A warp takes a query (or a
// key, for its gradient) and goes over the others in tiles of 32, one per lane, with the running maximum of Milakov &
// Gimelshein (2018). The matrix of scores is not stored (Dao et al. 2022).
//
// Every query, key and value is a row of `size` numbers. Sums over tiles run in order.
#include "kernels/cache_blocks.h"
#include "kernels/cuda/cuda.h"

namespace mlx::kernels::cuda {

// The rows of one head: row i begins at data + i · stride.
struct HeadRows {
  const float* data;
  std::int64_t stride;
  CacheRows at = {};  // their places in a cache
  __device__ const float* operator[](std::int64_t i) const { return data + row_of(at, i) * stride; }
};

__device__ inline float dot(const float* a, const float* b, std::int64_t size) {
  float sum = 0.0f;
  for (std::int64_t i = 0; i < size; ++i) sum += a[i] * b[i];
  return sum;
}

// How a score comes from a product, and which keys have one (op_list.h, kAttention).
struct Scoring {
  float scale, cap;     // cap: 0 for none
  std::int64_t window;  // 0 for none
  __device__ float score(float product) const {
    return cap > 0.0f ? cap * tanhf(scale * product / cap) : scale * product;
  }
  __device__ float slope(float score) const {  // of score() at a product, in terms of its result
    return cap > 0.0f ? scale * (1.0f - score / cap * (score / cap)) : scale;
  }
  __device__ std::int64_t first_key(std::int64_t position) const {
    return window > 0 && window <= position ? position - window + 1 : 0;
  }
  __device__ std::int64_t end_of_queries(std::int64_t key, std::int64_t time) const {
    return window > 0 && window < time - key ? key + window : time;
  }
};
static Scoring scoring_of(const State& s) {
  return {s.attrs.scale_a / std::sqrt(static_cast<float>(s.g.head)), s.attrs.cap, s.attrs.window};
}

// Computes y of one query over the keys from `begin` up to `count`, at least one. Returns the log of the sum of
// exponentials, in every lane.
__device__ inline float attend(const float* query, HeadRows keys, HeadRows values, std::int64_t begin,
                               std::int64_t count, std::int64_t size, Scoring how, float* y, int lane) {
  float max = -INFINITY, total = 0.0f;
  for (std::int64_t from = begin; from < count; from += kWarp) {
    const bool inside = from + lane < count;
    const float score = inside ? how.score(dot(query, keys[from + lane], size)) : -INFINITY;
    const float unordered = warp_sum(score != score ? 1.0f : 0.0f);
    const float tile_max = unordered > 0.0f ? NAN : warp_max(score), new_max = tile_max > max ? tile_max : max;
    const float shift = new_max == -INFINITY ? 0.0f : new_max;  // no weight yet
    const float weight = inside ? expf(score - shift) : 0.0f;
    const float kept = from > begin ? expf(max - shift) : 0.0f;  // factor for the earlier sums
    total = total * kept + warp_sum(weight);
    const std::int64_t in_tile = count - from < kWarp ? count - from : kWarp;
    for (std::int64_t base = 0; base < size; base += kWarp) {
      const std::int64_t d = base + lane;
      float sum = d < size && from > begin ? y[d] * kept : 0.0f;
      for (std::int64_t j = 0; j < in_tile; ++j) {
        const float p = __shfl_sync(0xffffffffu, weight, static_cast<int>(j));
        if (d < size) sum += p * values[from + j][d];
      }
      if (d < size) y[d] = sum;
    }
    max = new_max;
  }
  for (std::int64_t d = lane; d < size; d += kWarp) y[d] /= total;
  return max + logf(total);
}

// The place of one query head of one sequence, with its group's keys and values.
struct Head {
  std::int64_t batch, head, group;
  HeadRows q, k, v;
};
__device__ inline Head head_of(const Geometry& g, const float* qkv, std::int64_t query_head) {
  const std::int64_t batch = query_head / g.heads, head = query_head % g.heads;
  const std::int64_t group = head / (g.heads / g.kv_heads);
  const float* first = qkv + batch * g.time * g.width;
  return {batch,
          head,
          group,
          {first + head * g.head, g.width},
          {first + g.dim + group * g.head, g.width},
          {first + g.dim + g.kv_dim + group * g.head, g.width}};
}

void run_attention(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const Geometry g = s.g;
  const float* qkv = f32_in(&s, args, 0);
  float *y = f32_out(&s, args, 0), *lses = f32_out(&s, args, 1);
  const Scoring how = scoring_of(s);
  each_row(args, g.batch * g.heads * g.time, [=] __device__(std::int64_t row, int lane) {
    const std::int64_t t = row % g.time;
    const Head h = head_of(g, qkv, row / g.time);
    float* out = y + (h.batch * g.time + t) * g.dim + h.head * g.head;
    const float lse = attend(h.q[t], h.k, h.v, how.first_key(t), t + 1, g.head, how, out, lane);
    if (lses && lane == 0) lses[row] = lse;
  });
}

// If a sequence would outgrow the cache, nothing is written and y is 0.
void run_attention_cached(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const Geometry g = s.g;
  const float* qkv = f32_in(&s, args, 0);
  const std::int32_t *positions = s32_in(&s, args, 3), *blocks = s32_in(&s, args, 4);
  const std::int64_t window = s.attrs.window;
  float *y = f32_out(&s, args, 0), *keys = f32_out(&s, args, 1), *values = f32_out(&s, args, 2);
  const Scoring how = scoring_of(s);
  each(args, g.batch * g.time * g.kv_dim, [=] __device__(std::int64_t i) {
    const std::int64_t column = i % g.kv_dim, row = i / g.kv_dim, b = row / g.time, held = positions[b];
    const CacheRows rows = cache_rows(g, blocks, b);
    if (!has_room(g, window, rows, held)) return;
    const float* from = qkv + row * g.width + g.dim + column;
    const std::int64_t to = row_of(rows, held + row % g.time) * g.kv_dim + column;
    keys[to] = from[0];
    values[to] = from[g.kv_dim];
  });
  each_row(args, g.batch * g.heads * g.time, [=] __device__(std::int64_t row, int lane) {
    const std::int64_t t = row % g.time;
    const Head h = head_of(g, qkv, row / g.time);
    const std::int64_t held = positions[h.batch], at = h.group * g.head;
    const CacheRows rows = cache_rows(g, blocks, h.batch);
    float* out = y + (h.batch * g.time + t) * g.dim + h.head * g.head;
    if (!has_room(g, window, rows, held)) {
      for (std::int64_t d = lane; d < g.head; d += kWarp) out[d] = 0.0f;
      return;
    }
    attend(h.q[t], {keys + at, g.kv_dim, rows}, {values + at, g.kv_dim, rows}, how.first_key(held + t), held + t + 1,
           g.head, how, out, lane);
  });
}

// With p = exp(scores - lse): dv_j = sum_t p_tj dy_t, ds_tj = p_tj (dy_t·v_j - dy_t·y_t), dq_t = sum_j ds_tj k_j, dk_j
// = sum_t ds_tj q_t. First computes dy_t·y_t of all queries, then runs a warp per query, then a warp per key and value.
void run_attention_backward(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const Geometry g = s.g;
  const float *qkv = f32_in(&s, args, 0), *ys = f32_in(&s, args, 1), *lses = f32_in(&s, args, 2);
  const float* dys = f32_in(&s, args, 3);
  float *dqkv = f32_out(&s, args, 0), *owns = static_cast<float*>(args.workspace);
  const Scoring how = scoring_of(s);
  each_row(args, g.batch * g.heads * g.time, [=] __device__(std::int64_t row, int lane) {
    const std::int64_t t = row % g.time, query_head = row / g.time;
    const std::int64_t at = (query_head / g.heads * g.time + t) * g.dim + query_head % g.heads * g.head;
    float sum = 0.0f;
    for (std::int64_t d = lane; d < g.head; d += kWarp) sum += dys[at + d] * ys[at + d];
    sum = warp_sum(sum);
    if (lane == 0) owns[row] = sum;
  });
  each_row(args, g.batch * g.heads * g.time, [=] __device__(std::int64_t row, int lane) {
    const std::int64_t t = row % g.time;
    const Head h = head_of(g, qkv, row / g.time);
    const float* dy = dys + (h.batch * g.time + t) * g.dim + h.head * g.head;
    float* dq = dqkv + (h.batch * g.time + t) * g.width + h.head * g.head;
    const std::int64_t begin = how.first_key(t);
    for (std::int64_t from = begin; from <= t; from += kWarp) {
      const std::int64_t j = from + lane, in_tile = t + 1 - from < kWarp ? t + 1 - from : kWarp;
      float ds = 0.0f;
      if (j <= t) {
        const float score = how.score(dot(h.q[t], h.k[j], g.head)), p = expf(score - lses[row]);
        ds = p * (dot(dy, h.v[j], g.head) - owns[row]) * how.slope(score);
      }
      for (std::int64_t base = 0; base < g.head; base += kWarp) {
        const std::int64_t d = base + lane;
        float sum = d < g.head && from > begin ? dq[d] : 0.0f;
        for (std::int64_t i = 0; i < in_tile; ++i) {
          const float weight = __shfl_sync(0xffffffffu, ds, static_cast<int>(i));
          if (d < g.head) sum += weight * h.k[from + i][d];
        }
        if (d < g.head) dq[d] = sum;
      }
    }
  });
  each_row(args, g.batch * g.kv_heads * g.time, [=] __device__(std::int64_t row, int lane) {
    const std::int64_t j = row % g.time, batch = row / g.time / g.kv_heads, group = row / g.time % g.kv_heads;
    const std::int64_t queries = g.heads / g.kv_heads;  // query heads in the group
    float* dk = dqkv + (batch * g.time + j) * g.width + g.dim + group * g.head;
    float* dv = dk + g.kv_dim;
    bool first = true;
    for (std::int64_t member = 0; member < queries; ++member) {
      const std::int64_t query_head = batch * g.heads + group * queries + member;
      const Head h = head_of(g, qkv, query_head);
      const HeadRows dy{dys + batch * g.time * g.dim + h.head * g.head, g.dim};
      const std::int64_t end = how.end_of_queries(j, g.time);
      for (std::int64_t from = j; from < end; from += kWarp) {
        const std::int64_t t = from + lane, in_tile = end - from < kWarp ? end - from : kWarp;
        float p = 0.0f, ds = 0.0f;
        if (t < end) {
          const float score = how.score(dot(h.q[t], h.k[j], g.head));
          p = expf(score - lses[query_head * g.time + t]);
          ds = p * (dot(dy[t], h.v[j], g.head) - owns[query_head * g.time + t]) * how.slope(score);
        }
        for (std::int64_t base = 0; base < g.head; base += kWarp) {
          const std::int64_t d = base + lane;
          float key = d < g.head && !first ? dk[d] : 0.0f, value = d < g.head && !first ? dv[d] : 0.0f;
          for (std::int64_t i = 0; i < in_tile; ++i) {
            const float own_p = __shfl_sync(0xffffffffu, p, static_cast<int>(i));
            const float own_ds = __shfl_sync(0xffffffffu, ds, static_cast<int>(i));
            if (d < g.head) key += own_ds * h.q[from + i][d], value += own_p * dy[from + i][d];
          }
          if (d < g.head) dk[d] = key, dv[d] = value;
        }
        first = false;
      }
    }
  });
}

// Half precision is computed in f32: tensors are widened into the workspace, after the part that the kernel itself
// needs.
static std::size_t own_bytes(const State& s, Op op) {
  return op == Op::kAttentionBackward ? sizeof(float) * static_cast<std::size_t>(s.g.batch * s.g.heads * s.g.time) : 0;
}
template <Op kOp>
void run_widened(const void* state, const Args& args, int phase, int slice) {
  constexpr bool kBack = kOp == Op::kAttentionBackward;
  const State& s = state_of(state);
  const std::int64_t wide = s.g.count, narrow = s.g.batch * s.g.time * s.g.dim;  // elements of qkv and of y
  float* free = static_cast<float*>(args.workspace) + own_bytes(s, kOp) / sizeof(float);
  const auto take = [&](std::int64_t count) { return std::exchange(free, free + count); };
  const auto widened = [&](int i, std::int64_t count) -> const void* {
    const Reals from = reals_in(s, args, i, s.g.x_type);
    float* to = take(count);
    each(args, count, [=] __device__(std::int64_t at) { to[at] = from[at]; });
    return to;
  };
  const void* inputs[4] = {widened(0, wide)};
  if (kBack) inputs[1] = widened(1, narrow), inputs[2] = args.inputs[2], inputs[3] = widened(3, narrow);
  const std::int64_t count = kBack ? wide : narrow;
  float* result = take(count);
  void* outputs[2] = {result, kBack ? nullptr : f32_out(&s, args, 1)};
  Args in_f32 = args;
  in_f32.inputs = inputs, in_f32.outputs = outputs;
  if (kBack)
    run_attention_backward(state, in_f32, phase, slice);
  else
    run_attention(state, in_f32, phase, slice);
  const RealsOut to = reals_out(s, args, 0, s.g.x_type);
  each(args, count, [=] __device__(std::int64_t at) { to.store(at, result[at]); });
}

bool prepare_attention(const Problem& problem, Plan& plan) {
  const bool back = problem.op == Op::kAttentionBackward, cached = problem.op == Op::kAttentionCached;
  const State* s = new_state(problem, plan,
                             back     ? run_attention_backward
                             : cached ? run_attention_cached
                                      : run_attention,
                             Takes::kHalf);
  if (!s || (cached && s->g.cache_type != DType::kF32)) return false;
  plan.workspace_bytes = own_bytes(*s, problem.op);
  if (!is_half(s->g.x_type)) return true;
  plan.run = back ? run_widened<Op::kAttentionBackward> : run_widened<Op::kAttention>;
  const std::int64_t of_qkv = s->g.count, of_y = s->g.batch * s->g.time * s->g.dim;
  plan.workspace_bytes += sizeof(float) * static_cast<std::size_t>(back ? 2 * (of_qkv + of_y) : of_qkv + of_y);
  return true;
}

}  // namespace mlx::kernels::cuda
