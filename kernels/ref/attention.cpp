// Reference self-attention (Vaswani et al. 2017) with grouped queries (Ainslie et al. 2023): causal, with and without a
// cache, and its gradient; and in both directions. Sliced by (sequence, key head): the queries of a group share a
// slice.
//
// A query at position p sums over the keys of its window, up to p, in their order, whether they come from this call or
// from the cache. So decoding step by step gives the same bits as full evaluation. T: float, BF16 or F16, the storage
// type of everything except lse and the cache, which are f32.
#include <algorithm>

#include "kernels/cache_blocks.h"
#include "kernels/ref/ref.h"

namespace mlx::kernels::ref {
namespace {

// One head's rows of queries, keys or values: row i begins at data + i * stride.
template <typename T>
struct Rows {
  const T* data;
  std::int64_t stride;
  CacheRows at = {};  // their places in a cache
  const T* operator[](std::int64_t i) const { return data + row_of(at, i) * stride; }
};

template <typename T>
double dot(const T* a, const T* b, std::int64_t size) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < size; ++i) sum += double{widen(a[i])} * widen(b[i]);
  return sum;
}

void store(float* to, double value) {
  *to = static_cast<float>(value);
}
void store(BF16* to, double value) {
  *to = to_bf16(static_cast<float>(value));
}
void store(F16* to, double value) {
  *to = to_f16(static_cast<float>(value));
}

double scale_of(const State& s) {
  return double{s.attrs.scale_a} / std::sqrt(static_cast<double>(s.g.head));
}

// A score from q·k.
double score_of(const State& s, double product) {
  const double score = scale_of(s) * product, cap = s.attrs.cap;
  return cap > 0 ? cap * std::tanh(score / cap) : score;
}

// The first key that the query at `position` attends to.
std::int64_t first_key(const State& s, std::int64_t position) {
  return s.attrs.window > 0 && s.attrs.window <= position ? position - s.attrs.window + 1 : 0;
}

// Computes y of a query from the keys first … last. `sums` is scratch for as many doubles as a head is wide. Returns
// the log of the sum of exponentials.
template <typename T>
double attend(const State& s, const T* query, Rows<T> keys, Rows<T> values, std::int64_t first, std::int64_t last,
              double* sums, T* y) {
  const std::int64_t size = s.g.head;
  double max = -INFINITY, total = 0.0;
  for (std::int64_t j = first; j <= last; ++j) max = std::fmax(max, score_of(s, dot(query, keys[j], size)));
  for (std::int64_t i = 0; i < size; ++i) sums[i] = 0.0;
  for (std::int64_t j = first; j <= last; ++j) {
    const double weight = std::exp(score_of(s, dot(query, keys[j], size)) - max);
    total += weight;
    for (std::int64_t i = 0; i < size; ++i) sums[i] += weight * widen(values[j][i]);
  }
  for (std::int64_t i = 0; i < size; ++i) store(y + i, sums[i] / total);
  return max + std::log(total);
}

// The place of one query head of one sequence, and of its group's keys and values.
template <typename T>
struct Item {
  std::int64_t batch, head, group, size, stride;
  Rows<T> q, k, v;
  Item(const State& s, const T* qkv, std::int64_t query_head)
      : batch(query_head / s.g.heads),
        head(query_head % s.g.heads),
        group(head / (s.g.heads / s.g.kv_heads)),
        size(s.g.head),
        stride(s.g.width),
        q{qkv + batch * s.g.time * stride + head * size, stride},
        k{qkv + batch * s.g.time * stride + s.g.dim + group * size, stride},
        v{k.data + s.g.kv_dim, stride} {}
};

// The query heads of a slice's items, in order; those of a group are adjacent.
Range heads_of(const State& s, int phase, int slice) {
  const Range items = range_of(&s, phase, slice);
  const std::int64_t group = s.g.heads / s.g.kv_heads;
  return {items.begin * group, items.end * group};
}

template <typename T>
void forward(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const Range heads = heads_of(s, phase, slice);
  for (std::int64_t i = heads.begin; i < heads.end; ++i) {
    const Item<T> item(s, reals_in<T>(args, 0), i);
    double* scratch = static_cast<double*>(args.workspace) + slice * item.size;
    T* y = static_cast<T*>(args.outputs[0]) + item.batch * s.g.time * s.g.dim + item.head * item.size;
    for (std::int64_t t = 0; t < s.g.time; ++t) {
      const double lse = attend(s, item.q[t], item.k, item.v, first_key(s, t), t, scratch, y + t * s.g.dim);
      if (s.g.has_output[1]) f32_out(&s, args, 1)[i * s.g.time + t] = static_cast<float>(lse);
    }
  }
}

// If a sequence would outgrow the cache, nothing is written and y is 0.
void cached(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const Range heads = heads_of(s, phase, slice);
  for (std::int64_t i = heads.begin; i < heads.end; ++i) {
    const Item<float> item(s, f32_in(&s, args, 0), i);
    double* scratch = static_cast<double*>(args.workspace) + slice * item.size;
    const CacheRows rows = cache_rows(s.g, s32_in(&s, args, 4), item.batch);
    float* const keys = f32_out(&s, args, 1) + item.group * item.size;
    float* const values = f32_out(&s, args, 2) + item.group * item.size;
    float* y = f32_out(&s, args, 0) + item.batch * s.g.time * s.g.dim + item.head * item.size;
    const std::int64_t held = s32_in(&s, args, 3)[item.batch];
    const bool fits = has_room(s.g, s.attrs.window, rows, held);
    for (std::int64_t t = 0; t < s.g.time; ++t) {
      const std::int64_t row = fits ? row_of(rows, held + t) * s.g.kv_dim : 0;
      for (std::int64_t d = 0; d < item.size; ++d) {
        y[t * s.g.dim + d] = 0.0f;
        if (!fits) continue;
        keys[row + d] = item.k[t][d];
        values[row + d] = item.v[t][d];
      }
    }
    for (std::int64_t t = 0; fits && t < s.g.time; ++t)
      attend<float>(s, item.q[t], {keys, s.g.kv_dim, rows}, {values, s.g.kv_dim, rows}, first_key(s, held + t),
                    held + t, scratch, y + t * s.g.dim);
  }
}

void both_directions(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const Range heads = heads_of(s, phase, slice);
  for (std::int64_t i = heads.begin; i < heads.end; ++i) {
    const Item<float> item(s, f32_in(&s, args, 0), i);
    const std::int64_t length = length_of(s.g, s32_in(&s, args, 1), item.batch);
    double* scratch = static_cast<double*>(args.workspace) + slice * item.size;
    float* y = f32_out(&s, args, 0) + item.batch * s.g.time * s.g.dim + item.head * item.size;
    for (std::int64_t t = 0; t < length; ++t)
      attend(s, item.q[t], item.k, item.v, 0, length - 1, scratch, y + t * s.g.dim);
    for (std::int64_t t = length; t < s.g.time; ++t) std::fill_n(y + t * s.g.dim, item.size, 0.0f);
  }
}

// With p = exp(scores - lse): dv_j = sum_t p_tj dy_t, ds_tj = p_tj (dy_t·v_j - dy_t·y_t), dq_t = sum_j ds_tj k_j,
// dk_j = sum_t ds_tj q_t. The keys' and values' gradients are summed over the heads of their group in order.
template <typename T>
void backward(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const Range heads = heads_of(s, phase, slice);
  const std::int64_t time = s.g.time, group = s.g.heads / s.g.kv_heads;
  for (std::int64_t i = heads.begin; i < heads.end; ++i) {
    const Item<T> item(s, reals_in<T>(args, 0), i);
    const std::int64_t size = item.size, at = item.batch * time * s.g.dim + item.head * size;
    const Rows<T> y{reals_in<T>(args, 1) + at, s.g.dim}, dy{reals_in<T>(args, 3) + at, s.g.dim};
    const float* lse = f32_in(&s, args, 2) + i * time;
    double* dq = static_cast<double*>(args.workspace) + slice * 3 * time * size;
    double *dk = dq + time * size, *dv = dk + time * size;
    const bool first = i % group == 0;
    for (std::int64_t e = 0; e < (first ? 3 : 1) * time * size; ++e) dq[e] = 0.0;
    for (std::int64_t t = 0; t < time; ++t) {
      const double own = dot(dy[t], y[t], size);
      for (std::int64_t j = first_key(s, t); j <= t; ++j) {
        const double score = score_of(s, dot(item.q[t], item.k[j], size)), p = std::exp(score - lse[t]);
        const double bound = s.attrs.cap > 0 ? score / s.attrs.cap : 0;  // the tanh, whose slope is 1 - tanh²
        const double ds = p * (dot(dy[t], item.v[j], size) - own) * scale_of(s) * (1 - bound * bound);
        for (std::int64_t d = 0; d < size; ++d) {
          dv[j * size + d] += p * widen(dy[t][d]);
          dq[t * size + d] += ds * widen(item.k[j][d]);
          dk[j * size + d] += ds * widen(item.q[t][d]);
        }
      }
    }
    T* dqkv = static_cast<T*>(args.outputs[0]) + item.batch * time * item.stride;
    const std::int64_t columns[3] = {item.head * size, s.g.dim + item.group * size,
                                     s.g.dim + s.g.kv_dim + item.group * size};
    const std::int64_t parts = i % group == group - 1 ? 3 : 1;
    for (std::int64_t t = 0; t < time; ++t)
      for (std::int64_t part = 0; part < parts; ++part)
        for (std::int64_t d = 0; d < size; ++d)
          store(dqkv + t * item.stride + columns[part] + d, dq[(part * time + t) * size + d]);
  }
}

}  // namespace

bool prepare_attention(const Problem& problem, Plan& plan) {
  const bool back = problem.op == Op::kAttentionBackward;
  State* s = new_state(problem, plan, problem.op == Op::kAttentionCached ? cached : both_directions, Takes::kHalf);
  if (!s) return false;
  if (problem.op == Op::kAttention || back) {
    plan.run = by_type(s->g.x_type, [back](auto as) -> Run {
      using T = decltype(as);
      return back ? backward<T> : forward<T>;
    });
  }
  const std::int64_t held = problem.op == Op::kAttentionCached ? s->g.table : s->g.time;
  cut(s, plan, 0, s->g.batch * s->g.kv_heads, s->g.count * held);
  const std::int64_t doubles = (back ? 3 * s->g.time : 1) * s->g.head * plan.slices[0];
  plan.workspace_bytes = sizeof(double) * static_cast<std::size_t>(doubles);
  return true;
}

}  // namespace mlx::kernels::ref
