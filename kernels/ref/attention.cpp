// Reference self-attention (Vaswani et al. 2017) with grouped queries (Ainslie et al. 2023): causal, with and without a
// cache, and its gradient; and in both directions. Sliced by (sequence, key head): the queries of a group share a
// slice.
//
// A query at position p sums over the keys of its window, up to p, in their order, whether they come from this call or
// from the cache. So decoding step by step gives the same bits as full evaluation, if the cache is f32. T: float, BF16
// or F16, the storage type of everything except lse, which is f32, and the cache.
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/cache_blocks.h"
#include "kernels/cache_bytes.h"
#include "kernels/ref/ref.h"

namespace mlx::kernels::ref {
namespace {

// One head's rows of queries, keys or values: row i begins at data + i * stride.
template <typename T>
struct Rows {
  const T* data;
  std::int64_t stride;
  const T* operator[](std::int64_t i) const { return data + i * stride; }
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

// Of a head in a cache of eight bits.
void write_bytes(const float* from, std::int64_t size, std::uint8_t* to) {
  for (std::int64_t begin = 0; begin < size; begin += kCacheGroup) {
    const std::int64_t end = std::min(begin + kCacheGroup, size);
    float most = 0.0f;
    bool finite = true;
    for (std::int64_t d = begin; d < end; ++d)
      most = std::fmax(most, std::fabs(from[d])), finite = finite && std::isfinite(from[d]);
    const F16 scale = cache_scale(most, finite);
    std::memcpy(to + cache_scale_at(size, begin), &scale, sizeof scale);
    const float inverse = cache_inverse(scale);
    for (std::int64_t d = begin; d < end; ++d)
      to[d] = static_cast<std::uint8_t>(
          static_cast<std::int8_t>(inverse > 0.0f ? saturate(double{from[d] * inverse}, -127, 127) : 0.0));
  }
}
float read_byte(const std::uint8_t* head, std::int64_t size, std::int64_t d) {
  F16 scale;
  std::memcpy(&scale, head + cache_scale_at(size, d), sizeof scale);
  return widen(scale) * static_cast<float>(static_cast<std::int8_t>(head[d]));
}

// The rows of one head in a cache of any type.
struct HeadCache {
  DType type;
  std::int64_t size;  // numbers
  std::uint8_t* first;
  std::int64_t stride;  // bytes of a row of all heads
  HeadCache(const State& s, void* cache, std::int64_t group) : type(s.g.cache_type), size(s.g.head) {
    const bool bytes = type == DType::kS8;
    const std::int64_t head = bytes ? cache_head_bytes(size) : size * static_cast<std::int64_t>(size_of(type));
    first = static_cast<std::uint8_t*>(cache) + group * head;
    stride = s.g.kv_heads * head;
  }
  void write(std::int64_t row, const float* from) const {
    std::uint8_t* const to = first + row * stride;
    if (type == DType::kS8) return write_bytes(from, size, to);
    for (std::int64_t d = 0; d < size; ++d) store_real(to, type, d, double{from[d]});
  }
  void read(std::int64_t row, float* to) const {
    const std::uint8_t* const from = first + row * stride;
    for (std::int64_t d = 0; d < size; ++d)
      to[d] = type == DType::kS8 ? read_byte(from, size, d) : load_real(from, type, d);
  }
};

// If a sequence would outgrow the cache, nothing is written and y is 0. Queries attend to what the cache holds.
void cached(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const Range heads = heads_of(s, phase, slice);
  for (std::int64_t i = heads.begin; i < heads.end; ++i) {
    const Item<float> item(s, f32_in(&s, args, 0), i);
    double* scratch = static_cast<double*>(args.workspace) + slice * item.size;
    const CacheRows rows = cache_rows(s.g, s32_in(&s, args, 4), item.batch);
    const HeadCache keys(s, args.outputs[1], item.group), values(s, args.outputs[2], item.group);
    float* y = f32_out(&s, args, 0) + item.batch * s.g.time * s.g.dim + item.head * item.size;
    const std::int64_t held = s32_in(&s, args, 3)[item.batch], end = held + s.g.time;
    const bool fits = has_room(s.g, s.attrs.window, rows, held);
    for (std::int64_t t = 0; t < s.g.time; ++t) {
      std::fill_n(y + t * s.g.dim, item.size, 0.0f);
      if (!fits) continue;
      keys.write(row_of(rows, held + t), item.k[t]);
      values.write(row_of(rows, held + t), item.v[t]);
    }
    if (!fits) continue;
    std::vector<float> k(static_cast<std::size_t>(end * item.size)), v(k);
    for (std::int64_t j = first_key(s, held); j < end; ++j) {
      keys.read(row_of(rows, j), k.data() + j * item.size);
      values.read(row_of(rows, j), v.data() + j * item.size);
    }
    for (std::int64_t t = 0; t < s.g.time; ++t)
      attend<float>(s, item.q[t], {k.data(), item.size}, {v.data(), item.size}, first_key(s, held + t), held + t,
                    scratch, y + t * s.g.dim);
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
