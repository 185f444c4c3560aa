// Embedding and added positions, with their gradients. Ids outside a table read zeros and have no gradient.
#include "kernels/simd/lanes.h"

namespace mlx::kernels::MLX_ISA {
namespace {

// y = a + b over `count` elements; either may be null.
template <typename T = float>
inline void add_row(float* y, const float* a, const T* b, std::int64_t count) {
  by_vectors(0, count, [&](std::int64_t i, auto mask) {
    Floats x = a ? load(a + i, mask) : zeros();
    if (b) x = a ? x + load(b + i, mask) : load(b + i, mask);
    store(y + i, x, mask);
  });
}

// T: as the table is stored.
template <typename T>
void embedding(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const std::int64_t dim = s->g.dim;
  const std::int32_t* ids = s32_in(s, args, 0);
  const T* table = static_cast<const T*>(args.inputs[1]);
  const Range range = range_of(s, phase, slice);
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    const bool known = ids[i] >= 0 && ids[i] < s->g.table;
    add_row<T>(f32_out(s, args, 0) + i * dim, nullptr, known ? table + ids[i] * dim : nullptr, dim);
  }
}

// Sliced by blocks of 16 columns, so that frequent words do not load one slice.
void embedding_backward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const std::int64_t dim = s->g.dim;
  const std::int32_t* ids = s32_in(s, args, 0);
  const float* dy = f32_in(s, args, 1);
  float* table = f32_out(s, args, 0);
  const Range blocks = range_of(s, phase, slice);
  const std::int64_t begin = blocks.begin * 16, end = blocks.end * 16 < dim ? blocks.end * 16 : dim;
  for (std::int64_t row = 0; row < s->g.table; ++row)
    add_row<float>(table + row * dim + begin, nullptr, nullptr, end - begin);
  for (std::int64_t i = 0; i < s->g.count; ++i) {
    if (ids[i] < 0 || ids[i] >= s->g.table) continue;
    float* row = table + ids[i] * dim + begin;
    add_row(row, row, dy + i * dim + begin, end - begin);
  }
}

template <typename T>
void add_positions(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const std::int64_t dim = s->g.dim;
  const float* x = f32_in(s, args, 0);
  const T* table = static_cast<const T*>(args.inputs[1]);
  const std::int32_t* first = s32_in(s, args, 2);
  const Range rows = range_of(s, phase, slice);
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    const std::int64_t position = (first ? first[r / s->g.time] : 0) + r % s->g.time;
    const bool known = position >= 0 && position < s->g.table;
    add_row<T>(f32_out(s, args, 0) + r * dim, x + r * dim, known ? table + position * dim : nullptr, dim);
  }
}

// Sliced by position; adds the sequences in order.
void add_positions_backward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const std::int64_t dim = s->g.dim;
  const float* dy = f32_in(s, args, 0);
  const std::int32_t* first = s32_in(s, args, 1);
  const Range positions = range_of(s, phase, slice);
  for (std::int64_t p = positions.begin; p < positions.end; ++p) {
    float* row = f32_out(s, args, 0) + p * dim;
    add_row<float>(row, nullptr, nullptr, dim);
    for (std::int64_t b = 0; b < s->g.batch; ++b) {
      const std::int64_t t = p - (first ? first[b] : 0);
      if (t >= 0 && t < s->g.time) add_row(row, row, dy + (b * s->g.time + t) * dim, dim);
    }
  }
}

}  // namespace

bool prepare_embedding(const Problem& problem, Plan& plan) {
  const bool back = problem.op == Op::kEmbeddingBackward;
  State* s = new_state(problem, plan, embedding_backward);
  if (!s) return false;
  if (!back) plan.run = reading_stored(problem, plan, 1, [](auto as) -> Run { return embedding<decltype(as)>; });
  const std::int64_t touched = back ? s->g.count + s->g.table : s->g.count;
  cut(s, plan, 0, back ? (s->g.dim + 15) / 16 : s->g.count, touched * s->g.dim * 4);
  return true;
}

bool prepare_positions(const Problem& problem, Plan& plan) {
  const bool back = problem.op == Op::kAddPositionsBackward;
  State* s = new_state(problem, plan, add_positions_backward);
  if (!s) return false;
  if (!back) plan.run = reading_stored(problem, plan, 1, [](auto as) -> Run { return add_positions<decltype(as)>; });
  cut(s, plan, 0, back ? s->g.table : s->g.batch * s->g.time, s->g.count * 8);
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
