// Reference embedding and added positions, with their gradients. An id or position outside the table reads zeros and
// has no gradient.
#include "kernels/ref/ref.h"

namespace mlx::kernels::ref {
namespace {

// T: as the table is stored.
template <typename T>
void embedding(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const std::int32_t* ids = s32_in(&s, args, 0);
  const T* table = reals_in<T>(args, 1);
  float* y = f32_out(&s, args, 0);
  const Range range = range_of(&s, phase, slice);
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    const bool known = ids[i] >= 0 && ids[i] < s.g.table;
    for (std::int64_t d = 0; d < s.g.dim; ++d) y[i * s.g.dim + d] = known ? widen(table[ids[i] * s.g.dim + d]) : 0.0f;
  }
}

// Sliced by row of the table. Each slice reads all ids and sums its own rows in double, in order of position.
void embedding_backward(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const std::int64_t dim = s.g.dim;
  const std::int32_t* ids = s32_in(&s, args, 0);
  const float* dy = f32_in(&s, args, 1);
  float* table = f32_out(&s, args, 0);
  auto* sums = static_cast<double*>(args.workspace);
  const Range rows = range_of(&s, phase, slice);
  for (std::int64_t i = rows.begin * dim; i < rows.end * dim; ++i) sums[i] = 0.0;
  for (std::int64_t i = 0; i < s.g.count; ++i) {
    if (ids[i] < rows.begin || ids[i] >= rows.end) continue;
    for (std::int64_t d = 0; d < dim; ++d) sums[ids[i] * dim + d] += dy[i * dim + d];
  }
  for (std::int64_t i = rows.begin * dim; i < rows.end * dim; ++i) table[i] = static_cast<float>(sums[i]);
}

template <typename T>
void add_positions(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const std::int64_t dim = s.g.dim;
  const float* x = f32_in(&s, args, 0);
  const T* table = reals_in<T>(args, 1);
  const std::int32_t* first = s32_in(&s, args, 2);
  float* y = f32_out(&s, args, 0);
  const Range rows = range_of(&s, phase, slice);
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    const std::int64_t position = (first ? first[r / s.g.time] : 0) + r % s.g.time;
    const bool known = position >= 0 && position < s.g.table;
    for (std::int64_t d = 0; d < dim; ++d)
      y[r * dim + d] = x[r * dim + d] + (known ? widen(table[position * dim + d]) : 0.0f);
  }
}

// Sliced by position; sums over the sequences in order.
void add_positions_backward(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const std::int64_t dim = s.g.dim;
  const float* dy = f32_in(&s, args, 0);
  const std::int32_t* first = s32_in(&s, args, 1);
  float* table = f32_out(&s, args, 0);
  const Range positions = range_of(&s, phase, slice);
  for (std::int64_t p = positions.begin; p < positions.end; ++p)
    for (std::int64_t d = 0; d < dim; ++d) {
      double sum = 0.0;
      for (std::int64_t b = 0; b < s.g.batch; ++b) {
        const std::int64_t t = p - (first ? first[b] : 0);
        if (t >= 0 && t < s.g.time) sum += dy[(b * s.g.time + t) * dim + d];
      }
      table[p * dim + d] = static_cast<float>(sum);
    }
}

}  // namespace

bool prepare_embedding(const Problem& problem, Plan& plan) {
  const bool back = problem.op == Op::kEmbeddingBackward;
  State* s = new_state(problem, plan, embedding_backward);
  if (!s) return false;
  if (!back) plan.run = reading_stored(problem, plan, 1, [](auto as) -> Run { return embedding<decltype(as)>; });
  const std::int64_t bytes = s->g.count * s->g.dim * 8;
  cut(s, plan, 0, back ? s->g.table : s->g.count, bytes);
  if (back) plan.workspace_bytes = sizeof(double) * static_cast<std::size_t>(s->g.table * s->g.dim);
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

}  // namespace mlx::kernels::ref
