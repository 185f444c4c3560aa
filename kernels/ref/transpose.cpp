// Transpose: check and reference kernel, a reordering copy for elements of any type.
#include "kernels/checker.h"
#include "kernels/ref/strided.h"

namespace mlx::kernels {

void check_transpose(Checker& check, const Problem& problem, Geometry& g) {
  if (!check.input_is(0, 0, kAny)) return;
  const Shape& x = check.input(0);
  const IntList& axes = problem.attrs.axes;
  std::int64_t steps[kMaxRank] = {};
  steps_of(x, steps);
  bool seen[kMaxRank] = {};
  check.require(axes.count == x.rank, "axes must name every dim once");
  for (int i = 0; check.ok() && i < x.rank; ++i) {
    const std::int64_t axis = axes.at[static_cast<std::size_t>(i)];
    check.require(axis >= 0 && axis < x.rank && !seen[axis], "axes must name every dim once");
    if (!check.ok()) return;
    seen[axis] = true;
    g.loops.size[i] = dim(x, static_cast<int>(axis)), g.loops.a[i] = steps[axis];
  }
  if (!check.ok()) return;
  g.loops.rank = x.rank;
  check.output_equals(0, Dims(g.loops.size, g.loops.size + x.rank), x.dtype);
  merge(g.loops);
}

namespace ref {

bool prepare_transpose(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, nullptr, Takes::kHalf);
  if (!s) return false;
  plan.run = by_size(s->g.x_type, [](auto x) -> Run { return copy_strided<decltype(x)>; });
  cut_strided(s, plan, 0);
  return true;
}

}  // namespace ref
}  // namespace mlx::kernels
