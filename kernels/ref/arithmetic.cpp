// Arithmetic on two tensors with NumPy's broadcasting rules: checks and reference kernels.
#include <algorithm>
#include <limits>

#include "kernels/checker.h"
#include "kernels/ref/ref.h"

namespace mlx::kernels {

void check_arithmetic(Checker& check, const Problem& problem, Geometry& g) {
  const bool forward = problem.op == Op::kArithmetic;
  if (!check.input_is(0, 0) || !check.input_is(1, 0)) return;
  const Shape &a = check.input(0), &b = check.input(1);
  std::int64_t a_steps[kMaxRank] = {}, b_steps[kMaxRank] = {};
  steps_of(a, a_steps);
  steps_of(b, b_steps);
  const int rank = std::max(a.rank, b.rank);
  Dims y(static_cast<std::size_t>(rank));
  for (int i = 0; i < rank; ++i) {
    const int in_a = i - (rank - a.rank), in_b = i - (rank - b.rank);
    const std::int64_t of_a = in_a < 0 ? 1 : dim(a, in_a), of_b = in_b < 0 ? 1 : dim(b, in_b);
    check.require(of_a == of_b || of_a == 1 || of_b == 1, "the inputs' dims must be equal or 1");
    g.loops.size[i] = y[static_cast<std::size_t>(i)] = of_a == 1 ? of_b : of_a;
    g.loops.a[i] = of_a == 1 ? 0 : a_steps[in_a];
    g.loops.b[i] = of_b == 1 ? 0 : b_steps[in_b];
  }
  g.loops.rank = rank;
  merge(g.loops);
  if (forward) return check.output_equals(0, y);
  check.input_equals(2, y);
  for (const int i : {0, 1}) check.optional_output(i, y);
}

namespace ref {
namespace {

double compute(Arithmetic arithmetic, double a, double b) {
  switch (arithmetic) {
    case Arithmetic::kAdd:
      return a + b;
    case Arithmetic::kSub:
      return a - b;
    case Arithmetic::kMul:
      return a * b;
    case Arithmetic::kDiv:
      return a / b;
    case Arithmetic::kMax:
      return std::isnan(a) || a > b ? a : b;
    case Arithmetic::kMin:
      return std::isnan(a) || a < b ? a : b;
    case Arithmetic::kPow:
      return std::pow(a, b);
  }
  return 0.0;
}

// The derivatives with respect to a and b. If a equals b, the gradient of their maximum or minimum goes to a.
std::pair<double, double> slopes(Arithmetic arithmetic, double a, double b) {
  switch (arithmetic) {
    case Arithmetic::kAdd:
      return {1.0, 1.0};
    case Arithmetic::kSub:
      return {1.0, -1.0};
    case Arithmetic::kMul:
      return {b, a};
    case Arithmetic::kDiv:
      return {1.0 / b, -a / (b * b)};
    case Arithmetic::kMax:
      return a >= b ? std::pair{1.0, 0.0} : std::pair{0.0, 1.0};
    case Arithmetic::kMin:
      return a <= b ? std::pair{1.0, 0.0} : std::pair{0.0, 1.0};
    case Arithmetic::kPow:
      return {b == 0.0 ? 0.0 : b * std::pow(a, b - 1.0), a == 0.0 && b > 0.0 ? 0.0 : std::pow(a, b) * std::log(a)};
  }
  return {};
}

// Calls body(i, a, b) for the elements of a slice.
template <typename Body>
void each(const State& s, const Args& args, int phase, int slice, Body body) {
  const float *a = f32_in(&s, args, 0), *b = f32_in(&s, args, 1);
  const std::int64_t step_a = s.g.loops.a[s.g.loops.rank - 1], step_b = s.g.loops.b[s.g.loops.rank - 1];
  const Range range = elements_of(&s, phase, slice, count_of(s.g.loops));
  each_run(s.g.loops, range.begin, range.end, [&](std::int64_t i, Place place, std::int64_t count) {
    for (std::int64_t k = 0; k < count; ++k) body(i + k, a[place.a + k * step_a], b[place.b + k * step_b]);
  });
}

void arithmetic(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  float* y = f32_out(&s, args, 0);
  each(s, args, phase, slice,
       [&](std::int64_t i, float a, float b) { y[i] = static_cast<float>(compute(s.attrs.arithmetic, a, b)); });
}

void arithmetic_backward(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const float* dy = f32_in(&s, args, 2);
  float *da = f32_out(&s, args, 0), *db = f32_out(&s, args, 1);
  each(s, args, phase, slice, [&](std::int64_t i, float a, float b) {
    const auto [by_a, by_b] = slopes(s.attrs.arithmetic, a, b);
    const float gradient = dy[i];
    if (da) da[i] = static_cast<float>(gradient * by_a);
    if (db) db[i] = static_cast<float>(gradient * by_b);
  });
}

}  // namespace

bool prepare_arithmetic(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, problem.op == Op::kArithmetic ? arithmetic : arithmetic_backward);
  if (!s) return false;
  const std::int64_t count = count_of(s->g.loops);
  cut(s, plan, 0, (count + kBlock - 1) / kBlock, count * 12);
  return true;
}

}  // namespace ref
}  // namespace mlx::kernels
