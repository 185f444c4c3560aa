// Reference SwiGLU (Shazeer 2020): silu(gate) · up, and its gradient.
#include "kernels/ref/ref.h"

namespace mlx::kernels::ref {
namespace {

double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

void forward(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const std::int64_t half = s.g.width / 2;
  const Range rows = range_of(&s, phase, slice);
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    const float *gate = f32_in(&s, args, 0) + r * 2 * half, *up = gate + half;
    for (std::int64_t i = 0; i < half; ++i)
      store_real(args.outputs[0], s.g.y_type, r * half + i, gate[i] * sigmoid(gate[i]) * up[i]);
  }
}

// With f = sigmoid(gate): d silu = f (1 + gate (1 - f)).
void backward(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const std::int64_t half = s.g.width / 2;
  const Range rows = range_of(&s, phase, slice);
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    const float *gate = f32_in(&s, args, 0) + r * 2 * half, *up = gate + half, *dy = f32_in(&s, args, 1) + r * half;
    const auto store = [&](std::int64_t i, double dx) {
      store_real(args.outputs[0], s.g.y_type, r * 2 * half + i, dx);
    };
    for (std::int64_t i = 0; i < half; ++i) {
      const double f = sigmoid(gate[i]);
      store(i, dy[i] * double{up[i]} * (f * (1.0 + gate[i] * (1.0 - f))));
      store(half + i, dy[i] * (gate[i] * f));
    }
  }
}

}  // namespace

bool prepare_swiglu(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, problem.op == Op::kSwiGlu ? forward : backward, Takes::kBF16);
  if (!s) return false;
  cut(s, plan, 0, s->g.rows, s->g.count * 8);
  return true;
}

}  // namespace mlx::kernels::ref
