// Slices and their gradient: checks and reference kernels, which copy elements of any type.
#include "kernels/checker.h"
#include "kernels/ref/strided.h"

namespace mlx::kernels {

// The loops walk the slice; operand a is the whole tensor.
void check_slice(Checker& check, const Problem& problem, Geometry& g) {
  const bool forward = problem.op == Op::kSlice;
  if (!check.input_is(0, 0, forward ? kAny : kFloat) || !check.output_is(0, 0, forward ? kAny : kFloat)) return;
  const Shape& whole = forward ? check.input(0) : check.output(0);
  const Attrs& attrs = problem.attrs;
  const bool steps_given = attrs.steps.count > 0;
  check.require(attrs.starts.count == attrs.axes.count && attrs.ends.count == attrs.axes.count &&
                    (!steps_given || attrs.steps.count == attrs.axes.count),
                "there must be a start and an end for each of axes");
  Dims part = Checker::dims_of(whole);
  steps_of(whole, g.loops.a);
  bool seen[kMaxRank] = {};
  for (std::size_t i = 0; check.ok() && i < static_cast<std::size_t>(attrs.axes.count); ++i) {
    const std::int64_t axis = attrs.axes.at[i], step = steps_given ? attrs.steps.at[i] : 1;
    check.require(axis >= 0 && axis < whole.rank && !seen[axis], "axes must be dims, each once");
    check.require(step >= 1 && step <= kToEnd, "steps must be at least 1");
    if (!check.ok()) return;
    seen[axis] = true;
    std::int64_t& size = part[static_cast<std::size_t>(axis)];
    const std::int64_t begin = slice_index(attrs.starts.at[i], size), end = slice_index(attrs.ends.at[i], size);
    size = end > begin ? (end - begin + step - 1) / step : 0;
    g.offset += begin * g.loops.a[axis];
    g.loops.a[axis] *= step;
  }
  if (!check.ok()) return;
  if (forward)
    check.output_equals(0, part, whole.dtype);
  else
    check.input_equals(0, part);
  g.loops.rank = whole.rank;
  for (std::size_t i = 0; i < part.size(); ++i) g.loops.size[i] = part[i];
  merge(g.loops);
  g.elements = whole.count();
}

namespace ref {
namespace {

// Phase 0 clears dx, phase 1 writes dy into it.
void slice_backward(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  float* dx = f32_out(&s, args, 0);
  if (phase == 0) {
    const Range all = elements_of(&s, phase, slice, s.g.elements);
    for (std::int64_t i = all.begin; i < all.end; ++i) dx[i] = 0.0f;
    return;
  }
  const float* dy = f32_in(&s, args, 0);
  const std::int64_t step = s.g.loops.a[s.g.loops.rank - 1];
  const Range range = elements_of(&s, phase, slice, count_of(s.g.loops));
  each_run(s.g.loops, range.begin, range.end, [&](std::int64_t i, Place place, std::int64_t count) {
    for (std::int64_t k = 0; k < count; ++k) dx[s.g.offset + place.a + k * step] = dy[i + k];
  });
}

}  // namespace

bool prepare_slice(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, slice_backward, Takes::kHalf);
  if (!s) return false;
  if (problem.op == Op::kSlice) {
    plan.run = by_size(s->g.x_type, [](auto x) -> Run { return copy_strided<decltype(x)>; });
    cut_strided(s, plan, 0);
    return true;
  }
  cut(s, plan, 0, (s->g.elements + kBlock - 1) / kBlock, s->g.elements * 4);
  cut_strided(s, plan, 1);
  return true;
}

}  // namespace ref
}  // namespace mlx::kernels
