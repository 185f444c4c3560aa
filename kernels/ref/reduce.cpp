// Sums, means, maxima and minima over dims, and their gradients: checks and reference kernels.
#include <limits>

#include "kernels/checker.h"
#include "kernels/ref/ref.h"

namespace mlx::kernels {

// `loops` walk the result; `inner` walks the elements that are reduced to one. Operand a of both is the reduced tensor.
void check_reduce(Checker& check, const Problem& problem, Geometry& g) {
  const bool forward = problem.op == Op::kReduce;
  if (forward ? !check.input_is(0, 0) : !check.output_is(0, 0)) return;
  const Shape& x = forward ? check.input(0) : check.output(0);
  const IntList& axes = problem.attrs.axes;
  bool reduced[kMaxRank] = {};
  for (int i = 0; i < axes.count; ++i) {
    const std::int64_t axis = axes.at[static_cast<std::size_t>(i)];
    check.require(axis >= 0 && axis < x.rank && !reduced[axis], "axes must be dims, each once");
    if (!check.ok()) return;
    reduced[axis] = true;
  }
  std::int64_t steps[kMaxRank] = {};
  steps_of(x, steps);
  Dims y;
  for (int i = 0; i < x.rank; ++i) {
    const bool is_reduced = axes.count == 0 || reduced[i];
    Loops& loops = is_reduced ? g.inner : g.loops;
    loops.size[loops.rank] = dim(x, i), loops.a[loops.rank++] = steps[i];
    if (!is_reduced) y.push_back(dim(x, i));
    if (is_reduced && problem.attrs.keep_dims) y.push_back(1);
  }
  merge(g.loops);
  merge(g.inner);
  if (forward) return check.output_equals(0, y);
  check.input_equals(0, y);
  const bool selects = problem.attrs.reduction == Reduction::kMax || problem.attrs.reduction == Reduction::kMin;
  if (!selects) return;
  check.input_equals(1, Checker::dims_of(x));
  check.input_equals(2, y);
}

namespace ref {
namespace {

// Calls body(place in x) for the elements that are reduced to one, in order, until it returns false.
template <typename Body>
void each_reduced(const Loops& inner, std::int64_t begin, Body body) {
  const std::int64_t count = count_of(inner), step = inner.a[inner.rank - 1];
  bool goes_on = true;
  each_run(inner, 0, count, [&](std::int64_t, Place place, std::int64_t run) {
    for (std::int64_t k = 0; goes_on && k < run; ++k) goes_on = body(begin + place.a + k * step);
  });
}

double reduced(const State& s, const float* x, std::int64_t begin) {
  const Reduction reduction = s.attrs.reduction;
  const bool max = reduction == Reduction::kMax, selects = max || reduction == Reduction::kMin;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double result = !selects ? 0.0 : max ? -kInfinity : kInfinity;
  each_reduced(s.g.inner, begin, [&](std::int64_t at) {
    const double value = x[at];
    if (!selects)
      result += value;
    else if (std::isnan(value) || (max ? value > result : value < result))
      result = std::isnan(result) ? result : value;
    return true;
  });
  return reduction == Reduction::kMean ? result / static_cast<double>(count_of(s.g.inner)) : result;
}

void reduce(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const float* x = f32_in(&s, args, 0);
  float* y = f32_out(&s, args, 0);
  const Range range = range_of(&s, phase, slice);
  for (std::int64_t i = range.begin; i < range.end; ++i)
    y[i] = static_cast<float>(reduced(s, x, place_of(s.g.loops, i, s.g.loops.rank).a));
}

// The gradient of a maximum or minimum goes to the first element equal to it.
void reduce_backward(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const bool selects = s.attrs.reduction == Reduction::kMax || s.attrs.reduction == Reduction::kMin;
  const float *dy = f32_in(&s, args, 0), *x = f32_in(&s, args, 1), *y = f32_in(&s, args, 2);
  float* dx = f32_out(&s, args, 0);
  const double share = s.attrs.reduction == Reduction::kMean ? 1.0 / static_cast<double>(count_of(s.g.inner)) : 1.0;
  const Range range = range_of(&s, phase, slice);
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    const std::int64_t begin = place_of(s.g.loops, i, s.g.loops.rank).a;
    const auto gradient = static_cast<float>(dy[i] * share);
    bool found = false;
    each_reduced(s.g.inner, begin, [&](std::int64_t at) {
      const bool is = !selects || (!found && (x[at] == y[i] || std::isnan(x[at])));
      found = found || is;
      dx[at] = is ? gradient : 0.0f;
      return true;
    });
  }
}

}  // namespace

bool prepare_reduce(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, problem.op == Op::kReduce ? reduce : reduce_backward);
  if (!s) return false;
  const std::int64_t count = count_of(s->g.loops);
  cut(s, plan, 0, count, count * count_of(s->g.inner) * 4);
  return true;
}

}  // namespace ref
}  // namespace mlx::kernels
