// Products of stacks of matrices: checks and reference kernel.
#include <algorithm>

#include "kernels/checker.h"
#include "kernels/ref/ref.h"

namespace mlx::kernels {

// y[…, time, out_width] sums over in_width terms. The loops walk the stack; their steps count matrices.
void check_matmul(Checker& check, const Problem& problem, Geometry& g) {
  if (!check.input_is(0, 2) || !check.input_is(1, 2)) return;
  const Shape &a = check.input(0), &b = check.input(1);
  const bool turned_a = problem.attrs.transpose_a, turned_b = problem.attrs.transpose_b;
  g.time = dim(a, a.rank - (turned_a ? 1 : 2)), g.in_width = dim(a, a.rank - (turned_a ? 2 : 1));
  g.out_width = dim(b, b.rank - (turned_b ? 2 : 1));
  check.require(g.in_width == dim(b, b.rank - (turned_b ? 1 : 2)), "the matrices do not fit each other");
  const int rank = std::max(a.rank, b.rank) - 2;
  Dims y(static_cast<std::size_t>(rank));
  std::int64_t a_step = 1, b_step = 1;
  for (int i = rank - 1; i >= 0; --i) {
    const int in_a = i - (rank - (a.rank - 2)), in_b = i - (rank - (b.rank - 2));
    const std::int64_t of_a = in_a < 0 ? 1 : dim(a, in_a), of_b = in_b < 0 ? 1 : dim(b, in_b);
    check.require(of_a == of_b || of_a == 1 || of_b == 1, "the inputs' leading dims must be equal or 1");
    g.loops.size[i] = y[static_cast<std::size_t>(i)] = of_a == 1 ? of_b : of_a;
    g.loops.a[i] = of_a == 1 ? 0 : a_step;
    g.loops.b[i] = of_b == 1 ? 0 : b_step;
    a_step *= of_a, b_step *= of_b;
  }
  g.elements = b_step;  // number of matrices in b
  g.loops.rank = rank;
  merge(g.loops);
  y.insert(y.end(), {g.time, g.out_width});
  check.output_equals(0, y);
}

namespace ref {
namespace {

void matmul(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const std::int64_t m = s.g.time, k = s.g.in_width, n = s.g.out_width;
  const std::int64_t a_row = s.attrs.transpose_a ? 1 : k, a_term = s.attrs.transpose_a ? m : 1;
  const std::int64_t b_term = s.attrs.transpose_b ? 1 : n, b_column = s.attrs.transpose_b ? k : 1;
  const Range range = range_of(&s, phase, slice);
  for (std::int64_t item = range.begin; item < range.end; ++item) {
    const std::int64_t row = item % m;
    const Place place = place_of(s.g.loops, item / m, s.g.loops.rank);
    const float* a = f32_in(&s, args, 0) + place.a * m * k + row * a_row;
    const float* b = f32_in(&s, args, 1) + place.b * k * n;
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0.0;
      for (std::int64_t p = 0; p < k; ++p) sum += double{a[p * a_term]} * b[p * b_term + j * b_column];
      f32_out(&s, args, 0)[item * n + j] = static_cast<float>(sum);
    }
  }
}

}  // namespace

bool prepare_matmul(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, matmul);
  if (!s) return false;
  const std::int64_t rows = count_of(s->g.loops) * s->g.time;
  cut(s, plan, 0, rows, rows * s->g.out_width * (s->g.in_width + 4));
  return true;
}

}  // namespace ref
}  // namespace mlx::kernels
