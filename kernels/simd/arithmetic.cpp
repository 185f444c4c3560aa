// Arithmetic on two f32 tensors with NumPy's broadcasting rules: one pass at memory speed. Powers are left to ref.
#include "kernels/simd/lanes.h"

namespace mlx::kernels::MLX_ISA {
namespace {

struct Sum {
  Floats operator()(Floats a, Floats b) const { return a + b; }
};
struct Difference {
  Floats operator()(Floats a, Floats b) const { return a - b; }
};
struct Multiple {
  Floats operator()(Floats a, Floats b) const { return a * b; }
};
struct Quotient {
  Floats operator()(Floats a, Floats b) const { return a / b; }
};
struct Larger {  // max() returns b if a is NaN
  Floats operator()(Floats a, Floats b) const { return select(ordered(a), max(a, b), a); }
};
struct Smaller {
  Floats operator()(Floats a, Floats b) const { return select(ordered(a), min(a, b), a); }
};

// One of the operands may be a single number throughout the innermost loop.
template <typename Body>
void run(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Body body;
  const Loops& l = s->g.loops;
  const float *a = f32_in(s, args, 0), *b = f32_in(s, args, 1);
  float* y = f32_out(s, args, 0);
  const bool one_a = l.a[l.rank - 1] == 0, one_b = l.b[l.rank - 1] == 0;
  const Range range = elements_of(s, phase, slice, count_of(l));
  each_run(l, range.begin, range.end, [&](std::int64_t i, Place place, std::int64_t count) {
    const float *first = a + place.a, *second = b + place.b;
    float* to = y + i;
    if (one_a) {
      const Floats x = broadcast(*first);
      by_vectors(0, count, [&](std::int64_t k, auto mask) { store(to + k, body(x, load(second + k, mask)), mask); });
    } else if (one_b) {
      const Floats x = broadcast(*second);
      by_vectors(0, count, [&](std::int64_t k, auto mask) { store(to + k, body(load(first + k, mask), x), mask); });
    } else {
      by_vectors(0, count, [&](std::int64_t k, auto mask) {
        store(to + k, body(load(first + k, mask), load(second + k, mask)), mask);
      });
    }
  });
}

Run run_of(Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::kAdd:
      return run<Sum>;
    case Arithmetic::kSub:
      return run<Difference>;
    case Arithmetic::kMul:
      return run<Multiple>;
    case Arithmetic::kDiv:
      return run<Quotient>;
    case Arithmetic::kMax:
      return run<Larger>;
    case Arithmetic::kMin:
      return run<Smaller>;
    case Arithmetic::kPow:
      return nullptr;
  }
  return nullptr;
}

}  // namespace

bool prepare_arithmetic(const Problem& problem, Plan& plan) {
  const Run run = run_of(problem.attrs.arithmetic);
  State* s = run ? new_state(problem, plan, run) : nullptr;
  if (!s) return false;
  const std::int64_t count = count_of(s->g.loops);
  cut(s, plan, 0, (count + kBlock - 1) / kBlock, count * 12);
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
