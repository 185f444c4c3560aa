// Gathering along a dim and its gradient: checks and reference kernels, for elements of any type.
#include <cstring>

#include "kernels/checker.h"
#include "kernels/ref/ref.h"

namespace mlx::kernels {

// The source is [n, table, dim], the result [n, time, dim]; time is the number of indices.
void check_gather(Checker& check, const Problem& problem, Geometry& g) {
  const bool forward = problem.op == Op::kGather;
  const int at = forward ? 1 : 0;  // the indices
  if (!check.input_is(at, 0, {DType::kS32, DType::kI64})) return;
  if (forward ? !check.input_is(0, 1, kAny) : !check.output_is(0, 1)) return;
  const Shape &source = forward ? check.input(0) : check.output(0), &indices = check.input(at);
  const std::int64_t axis = problem.attrs.axis;
  check.require(axis >= 0 && axis < source.rank, "axis must be a dim");
  check.require(source.rank - 1 + indices.rank <= kMaxRank, "the result has too many dims");
  if (!check.ok()) return;
  g.n = g.dim = 1;
  Dims result;
  for (int i = 0; i < axis; ++i) g.n *= dim(source, i), result.push_back(dim(source, i));
  for (int i = 0; i < indices.rank; ++i) result.push_back(dim(indices, i));
  for (int i = static_cast<int>(axis) + 1; i < source.rank; ++i)
    g.dim *= dim(source, i), result.push_back(dim(source, i));
  g.table = dim(source, static_cast<int>(axis)), g.time = indices.count();
  g.index_type = indices.dtype;
  if (forward)
    check.output_equals(0, result, source.dtype);
  else
    check.input_equals(1, result);
}

namespace ref {
namespace {

// Index i; -1 if it is out of range. Negative indices count from the end.
std::int64_t index_at(const State& s, const void* indices, std::int64_t i) {
  const std::int64_t given = s.g.index_type == DType::kI64 ? static_cast<const std::int64_t*>(indices)[i]
                                                           : static_cast<const std::int32_t*>(indices)[i];
  if (given < -s.g.table || given >= s.g.table) return -1;
  return given < 0 ? given + s.g.table : given;
}

void gather(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const auto run = static_cast<std::size_t>(s.g.dim) * size_of(s.g.x_type);
  const Range range = range_of(&s, phase, slice);
  for (std::int64_t i = range.begin; i < range.end && run > 0; ++i) {
    const std::int64_t index = index_at(s, args.inputs[1], i % s.g.time);
    auto* y = static_cast<char*>(args.outputs[0]) + static_cast<std::size_t>(i) * run;
    const auto row = static_cast<std::size_t>(i / s.g.time * s.g.table + index);
    if (index < 0)
      std::memset(y, 0, run);
    else
      std::memcpy(y, static_cast<const char*>(args.inputs[0]) + row * run, run);
  }
}

// Sliced by row of dx. Each slice reads all indices and sums its own rows in double, in order of the indices.
void gather_backward(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const Range range = range_of(&s, phase, slice);
  const std::int64_t width = s.g.dim;
  const float* dy = f32_in(&s, args, 1);
  auto* sums = static_cast<double*>(args.workspace);
  for (std::int64_t i = range.begin * width; i < range.end * width; ++i) sums[i] = 0.0;
  for (std::int64_t n = range.begin / (s.g.table > 0 ? s.g.table : 1); n * s.g.table < range.end; ++n)
    for (std::int64_t i = 0; i < s.g.time; ++i) {
      const std::int64_t index = index_at(s, args.inputs[0], i), row = n * s.g.table + index;
      if (index < 0 || row < range.begin || row >= range.end) continue;
      for (std::int64_t d = 0; d < width; ++d) sums[row * width + d] += dy[(n * s.g.time + i) * width + d];
    }
  float* dx = f32_out(&s, args, 0);
  for (std::int64_t i = range.begin * width; i < range.end * width; ++i) dx[i] = static_cast<float>(sums[i]);
}

}  // namespace

bool prepare_gather(const Problem& problem, Plan& plan) {
  const bool forward = problem.op == Op::kGather;
  State* s = new_state(problem, plan, forward ? gather : gather_backward, Takes::kHalf);
  if (!s) return false;
  const std::int64_t rows = s->g.n * (forward ? s->g.time : s->g.table);
  cut(s, plan, 0, rows, rows * s->g.dim * 8);
  if (!forward) plan.workspace_bytes = static_cast<std::size_t>(rows * s->g.dim) * sizeof(double);
  return true;
}

}  // namespace ref
}  // namespace mlx::kernels
