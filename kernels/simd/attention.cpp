// Causal self-attention with grouped queries, with and without a cache: blockwise with a running maximum, without
// storing the matrix of scores (Milakov & Gimelshein 2018; Dao et al. 2022).
//
// Blocks of keys begin at multiples of 128 from the sequence's first key. Tiles and single queries do the same
// operations on each number in the same order, so decoding gives the same bits as full evaluation, as in ref.
#include "kernels/cache_blocks.h"
#include "kernels/cache_bytes.h"
#include "kernels/simd/attention_forward.h"

namespace mlx::kernels::MLX_ISA {
namespace {

// The keys and values that a head's queries attend to: rows from position 0 on, `stride` bytes apart.
struct Past {
  const std::uint8_t *keys, *values;
  std::int64_t stride;
  CacheRows rows = {};
  DType type = DType::kF32;
  float* widened = nullptr;  // of another type: room for a block of keys and one of values in f32
};

// A block of keys and values in f32, rows `stride` floats apart.
struct KeyBlock {
  const float *keys, *values;
  std::int64_t stride;
};

// A head's numbers in f32; bytes as cache_bytes.h has them.
inline void widen_head(DType type, const std::uint8_t* from, std::int64_t size, float* to) {
  if (type == DType::kF16) {
    by_vectors(0, size, [&](std::int64_t i, auto mask) {
      store(to + i, load(reinterpret_cast<const F16*>(from) + i, mask), mask);
    });
    return;
  }
  for (std::int64_t i = 0; i < size; i += 16) {
    F16 scale;
    __builtin_memcpy(&scale, from + cache_scale_at(size, i), sizeof scale);
    store(to + i, to_floats(load_narrow<true>(from + i, size - i)) * broadcast(widen(scale)), lanes(size - i));
  }
}

// The `count` keys from `position` on, a multiple of kKeys.
inline KeyBlock block_at(const Past& past, std::int64_t position, std::int64_t count, std::int64_t size) {
  const std::int64_t begin = row_of(past.rows, position) * past.stride;
  const std::uint8_t *keys = past.keys + begin, *values = past.values + begin;
  if (past.type == DType::kF32)
    return {reinterpret_cast<const float*>(keys), reinterpret_cast<const float*>(values),
            past.stride / static_cast<std::int64_t>(sizeof(float))};
  float *const to_keys = past.widened, *const to_values = to_keys + kKeys * size;
  for (std::int64_t j = 0; j < count; ++j) {
    widen_head(past.type, keys + j * past.stride, size, to_keys + j * size);
    widen_head(past.type, values + j * past.stride, size, to_values + j * size);
  }
  return {to_keys, to_values, size};
}

// Turns the scores of a block into weights e^(score - maximum), and updates maximum and total. `factor` is what earlier
// sums must be multiplied by.
inline void weigh(const Scratch& at, std::int64_t lane, std::int64_t position, std::int64_t block, std::int64_t count,
                  const Scoring& how) {
  const Floats before = load(at.max + lane);
  Floats most = before, total = zeros();
  for (std::int64_t j = 0; how.cap > 0 && j < count; ++j) {
    float* score = at.scores + j * kTile + lane;
    store(score, soft_cap16(load(score), how.cap));
  }
  for (std::int64_t j = 0; j < count; ++j)
    most = select(how.sees(position, block + j), max(most, load(at.scores + j * kTile + lane)), most);
  for (std::int64_t j = 0; j < count; ++j) {
    float* score = at.scores + j * kTile + lane;
    const Floats weight = exp16(load(score) - most);
    const Floats seen = keep(how.sees(position, block + j), weight);
    total = total + seen;
    store(score, seen);
  }
  const Floats factor = exp16(before - most);
  store(at.max + lane, most);
  store(at.factor + lane, factor);
  store(at.total + lane, fma(load(at.total + lane), factor, total));
}

// Of queries that have seen no key yet. With a window there may be none in a block; the factor is still a number.
inline float first_max(const Scoring& how) {
  return how.window > 0 ? -__FLT_MAX__ : -__builtin_inff();
}

// Attends with the queries at positions first … end-1 of the tile that begins at `start`. q is the row of `first`. Row
// i of y is at y + i · y_stride. lse may be null.
template <int kVectors>
void attend_tile(const float* q, std::int64_t q_stride, Past past, std::int64_t start, std::int64_t first,
                 std::int64_t end, std::int64_t size, const Scoring& how, const Scratch& at, float* y,
                 std::int64_t y_stride, float* lse) {
  to_lanes(q, q_stride, first - start, end - first, size, how.scale, at.x);
  for (std::int64_t lane = 0; lane < kTile; lane += 16) {
    store(at.max + lane, broadcast(first_max(how)));
    store(at.total + lane, zeros());
  }
  for (std::int64_t i = 0; i < kTile * size; ++i) at.sums[i] = 0.0f;
  const std::int64_t begin = how.first_key(first) / kKeys * kKeys;
  for (std::int64_t block = begin; block < end; block += kKeys) {
    const std::int64_t count = end - block < kKeys ? end - block : kKeys;
    const KeyBlock there = block_at(past, block, count, size);
    score<kVectors>(at.x, there.keys, there.stride, count, size, at.scores);
    for (int v = 0; v < kVectors; ++v) weigh(at, 16 * v, start + 16 * v, block, count, how);
    for (std::int64_t p = first; p < end; ++p)
      if (block > begin) shrink(at.sums + (p - start) * size, at.factor[p - start], size);
    // Four queries at once over the keys that the first of them sees, then each over its own remaining keys.
    for (std::int64_t p = first; p < end; p += 4) {
      const std::int64_t rows = end - p < 4 ? end - p : 4, common = p - block + 1 < count ? p - block + 1 : count;
      const float* weights = at.scores + (p - start);
      float* sums = at.sums + (p - start) * size;
      accumulate(sums, size, rows, {weights, 1, kTile}, there.values, there.stride, common, size);
      for (std::int64_t r = 1; r < rows; ++r) {
        const std::int64_t own = common + r < count ? common + r : count;
        accumulate_rows<1>(sums + r * size, size, {weights + r + common * kTile, 1, kTile},
                           there.values + common * there.stride, there.stride, own - common, size);
      }
    }
  }
  for (std::int64_t p = first; p < end; ++p) {
    const float total = at.total[p - start];
    divide(at.sums + (p - start) * size, total, size, y + (p - first) * y_stride);
    if (lse) lse[p - first] = static_cast<float>(double{at.max[p - start]} + logarithm(double{total}));
  }
}

// Attends with one query at `position`. Its keys are transposed as they are read, 16 in the lanes.
void attend_one(const float* q, Past past, std::int64_t position, std::int64_t size, const Scoring& how,
                const Scratch& at, float* y) {
  by_vectors(0, size, [&](std::int64_t i, auto mask) {
    store(at.x + i, load(q + i, mask) * broadcast(how.scale));
    store(at.sums + i, zeros(), mask);
  });
  const std::int64_t first = how.first_key(position), begin = first / kKeys * kKeys;
  float highest = first_max(how), total = 0.0f;
  for (std::int64_t block = begin; block <= position; block += kKeys) {
    const std::int64_t count = position + 1 - block < kKeys ? position + 1 - block : kKeys;
    const KeyBlock there = block_at(past, block, count, size);
    Floats most = broadcast(highest);
    for (std::int64_t j = 0; j < count; j += 16) {
      Floats sum = zeros();
      for (std::int64_t i = 0; i < size; i += 16) {
        Floats columns[16];
        load_columns(there.keys + j * there.stride, there.stride, 0, count - j, i, size, columns);
        for (std::int64_t c = 0; c < 16 && i + c < size; ++c) sum = fma(broadcast(at.x[i + c]), columns[c], sum);
      }
      if (how.cap > 0) sum = soft_cap16(sum, how.cap);
      if (block + j < first) sum = select(lanes_from(first - block - j), sum, broadcast(-__builtin_inff()));
      store(at.scores + j, sum);
      most = select(lanes(count - j), max(most, sum), most);
    }
    const float before = highest;
    highest = lane_max(most);
    float added = 0.0f;
    for (std::int64_t j = 0; j < count; j += 16) store(at.scores + j, exp16(load(at.scores + j) - broadcast(highest)));
    for (std::int64_t j = 0; j < count; ++j) added += at.scores[j];
    const float factor = lane_0(exp16(broadcast(before - highest)));
    total = __builtin_fmaf(total, factor, added);
    if (block > begin) shrink(at.sums, factor, size);
    accumulate_rows<1>(at.sums, size, {at.scores, 0, 1}, there.values, there.stride, count, size);
  }
  divide(at.sums, total, size, y);
}

// The queries at positions held … held+time-1, whose rows begin at q.
void attend(const float* q, std::int64_t q_stride, Past past, std::int64_t held, std::int64_t time, std::int64_t size,
            const Scoring& how, const Scratch& at, float* y, std::int64_t y_stride, float* lse) {
  constexpr std::int64_t kFew = 3;  // below this number, single queries are faster
  for (std::int64_t p = held; p < held + time;) {
    const std::int64_t start = p / kTile * kTile, end = start + kTile < held + time ? start + kTile : held + time;
    const float* row = q + (p - held) * q_stride;
    float *to = y + (p - held) * y_stride, *log_sums = lse ? lse + (p - held) : nullptr;
    if (!lse && end - p < kFew) {
      for (std::int64_t i = 0; i < end - p; ++i)
        attend_one(row + i * q_stride, past, p + i, size, how, at, to + i * y_stride);
    } else if (end - start <= 16) {
      attend_tile<1>(row, q_stride, past, start, p, end, size, how, at, to, y_stride, log_sums);
    } else {
      attend_tile<2>(row, q_stride, past, start, p, end, size, how, at, to, y_stride, log_sums);
    }
    p = end;
  }
}

void forward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Scratch at = scratch_of(args.workspace, slice, s->g.head, false);
  const Range heads = range_of(s, phase, slice);
  for (std::int64_t i = heads.begin; i < heads.end; ++i) {
    const Head head = head_of(s, f32_in(s, args, 0), i);
    float* lse = s->g.has_output[1] ? f32_out(s, args, 1) + i * s->g.time : nullptr;
    const Past past{reinterpret_cast<const std::uint8_t*>(head.k), reinterpret_cast<const std::uint8_t*>(head.v),
                    head.stride * static_cast<std::int64_t>(sizeof(float))};
    attend(head.q, head.stride, past, 0, s->g.time, head.size, scoring_of(s), at, f32_out(s, args, 0) + head.y,
           s->g.dim, lse);
  }
}

// Writes a head's numbers in eight bits.
void write_bytes(const float* from, std::int64_t size, std::uint8_t* to) {
  for (std::int64_t begin = 0; begin < size; begin += kCacheGroup) {
    const std::int64_t end = begin + kCacheGroup < size ? begin + kCacheGroup : size;
    Floats largest = zeros(), poison = zeros();  // NaN if a number is not finite
    by_vectors(begin, end, [&](std::int64_t i, auto mask) {
      const Floats x = load(from + i, mask);
      largest = max(abs(x), largest);
      poison = poison + (x - x);
    });
    const F16 scale = cache_scale(lane_max(largest), lane_sum(poison) == 0.0f);
    __builtin_memcpy(to + cache_scale_at(size, begin), &scale, sizeof scale);
    const float inverse = cache_inverse(scale);
    const Floats most = broadcast(127.0f), least = broadcast(-127.0f);
    for (std::int64_t i = begin; i < end; i += 16) {
      const Floats x = min(most, max(least, load(from + i, lanes(end - i)) * broadcast(inverse)));
      store_narrow(to + i, inverse > 0.0f ? to_integers(x) : integers(0), end - i);
    }
  }
}

void write_head(DType type, const float* from, std::int64_t size, std::uint8_t* to) {
  if (type == DType::kS8) return write_bytes(from, size, to);
  by_vectors(0, size, [&](std::int64_t i, auto mask) {
    const Floats x = load(from + i, mask);
    if (type == DType::kF16)
      store(reinterpret_cast<F16*>(to) + i, x, mask);
    else
      store(reinterpret_cast<float*>(to) + i, x, mask);
  });
}

// Bytes of a head in the cache.
std::int64_t head_bytes(DType type, std::int64_t size) {
  return type == DType::kS8 ? cache_head_bytes(size) : size * (type == DType::kF16 ? 2 : 4);
}

// Sliced by (sequence, key head), so only the same slice's queries read what it writes to the cache.
void cached(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const DType type = s->g.cache_type;
  const Scratch at = scratch_of(args.workspace, slice, s->g.head, type != DType::kF32);
  const std::int64_t size = s->g.head, time = s->g.time, queries = s->g.heads / s->g.kv_heads;
  const std::int64_t width = head_bytes(type, size), stride = s->g.kv_heads * width;
  const Scoring how = scoring_of(s);
  const Range items = range_of(s, phase, slice);
  for (std::int64_t i = items.begin; i < items.end; ++i) {
    const Head first = head_of(s, f32_in(s, args, 0), i * queries);
    const CacheRows rows = cache_rows(s->g, s32_in(s, args, 4), first.batch);
    auto* const keys = static_cast<std::uint8_t*>(args.outputs[1]) + first.group * width;
    auto* const values = static_cast<std::uint8_t*>(args.outputs[2]) + first.group * width;
    const std::int64_t held = s32_in(s, args, 3)[first.batch];
    const bool fits = has_room(s->g, s->attrs.window, rows, held);
    for (std::int64_t t = 0; fits && t < time; ++t) {
      const std::int64_t row = row_of(rows, held + t) * stride;
      write_head(type, first.k + t * first.stride, size, keys + row);
      write_head(type, first.v + t * first.stride, size, values + row);
    }
    for (std::int64_t h = 0; h < queries; ++h) {
      const Head head = head_of(s, f32_in(s, args, 0), i * queries + h);
      float* y = f32_out(s, args, 0) + head.y;
      for (std::int64_t t = 0; !fits && t < time; ++t)
        for (std::int64_t d = 0; d < size; ++d) y[t * s->g.dim + d] = 0.0f;
      if (fits)
        attend(head.q, head.stride, {keys, values, stride, rows, type, at.widened}, held, time, size, how, at, y,
               s->g.dim, nullptr);
    }
  }
}

}  // namespace

bool prepare_attention(const Problem& problem, Plan& plan) {
  const bool whole = problem.op == Op::kAttention;
  State* s = new_state(problem, plan, whole ? forward : cached, whole ? Takes::kF32 : Takes::kHalf);
  if (!s) return false;
  const bool widens = !whole && s->g.cache_type != DType::kF32;
  cut(s, plan, 0, s->g.batch * (whole ? s->g.heads : s->g.kv_heads), s->g.count * (whole ? s->g.time : s->g.table));
  plan.workspace_bytes = bytes_of(s->slices[0] * floats_of(s->g.head, widens), sizeof(float));
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
