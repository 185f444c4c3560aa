// Reference SwiGLU (Shazeer 2020), silu(gate) · up or gelu(gate) · up, and its gradient.
#include "kernels/ref/ref.h"

namespace mlx::kernels::ref {
namespace {

double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

// The gate's activation and its slope.
double gate_of(const State& s, double x) {
  return s.attrs.activation == Activation::kGelu ? gelu(x) : x * sigmoid(x);
}
double slope_of(const State& s, double x) {
  const double f = sigmoid(x);
  return s.attrs.activation == Activation::kGelu ? gelu_slope(x) : f * (1.0 + x * (1.0 - f));
}

void forward(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const std::int64_t half = s.g.width / 2;
  const auto x = [&](std::int64_t i) { return load_real(args.inputs[0], s.g.x_type, i); };
  const Range rows = range_of(&s, phase, slice);
  for (std::int64_t r = rows.begin; r < rows.end; ++r)
    for (std::int64_t i = 0; i < half; ++i) {
      const double gate = x(2 * r * half + i);
      store_real(args.outputs[0], s.g.y_type, r * half + i, gate_of(s, gate) * x((2 * r + 1) * half + i));
    }
}

// With f = sigmoid(gate): d silu = f (1 + gate (1 - f)).
void backward(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const std::int64_t half = s.g.width / 2;
  const auto x = [&](std::int64_t i) { return double{load_real(args.inputs[0], s.g.x_type, i)}; };
  const auto store = [&](std::int64_t i, double dx) { store_real(args.outputs[0], s.g.y_type, i, dx); };
  const Range rows = range_of(&s, phase, slice);
  for (std::int64_t r = rows.begin; r < rows.end; ++r)
    for (std::int64_t i = 0; i < half; ++i) {
      const std::int64_t at_gate = 2 * r * half + i, at_up = at_gate + half;
      const double gate = x(at_gate), up = x(at_up);
      const double dy = load_real(args.inputs[1], s.g.dy_type, r * half + i);
      store(at_gate, dy * up * slope_of(s, gate));
      store(at_up, dy * gate_of(s, gate));
    }
}

}  // namespace

bool prepare_swiglu(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, problem.op == Op::kSwiGlu ? forward : backward, Takes::kHalf);
  if (!s) return false;
  cut(s, plan, 0, s->g.rows, s->g.count * 8);
  return true;
}

}  // namespace mlx::kernels::ref
