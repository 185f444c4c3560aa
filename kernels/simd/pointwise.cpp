// Relu, relu6, gelu, addition and their gradients: one pass at memory speed.
#include "kernels/simd/lanes.h"

namespace mlx::kernels::MLX_ISA {
namespace {

template <typename Body>
void each(const void* opaque, const Args& args, int phase, int slice, Body body) {
  const State* s = state_of(opaque);
  const float *a = f32_in(s, args, 0), *b = f32_in(s, args, 1);
  if (!b) b = a;
  float* y = f32_out(s, args, 0);
  const Range range = elements_of(s, phase, slice, s->g.count);
  by_vectors(range.begin, range.end,
             [&](std::int64_t i, auto mask) { store(y + i, body(load(a + i, mask), load(b + i, mask)), mask); });
}

void relu(const void* opaque, const Args& args, int phase, int slice) {
  each(opaque, args, phase, slice, [](Floats x, Floats) { return relu16(x); });
}
void relu_backward(const void* opaque, const Args& args, int phase, int slice) {
  each(opaque, args, phase, slice, [](Floats y, Floats dy) { return keep(y > zeros(), dy); });
}
void relu6(const void* opaque, const Args& args, int phase, int slice) {
  const Bounds bounds = bounds_of(Activation::kRelu6);
  each(opaque, args, phase, slice, [bounds](Floats x, Floats) { return bounded16(bounds, x); });
}
void relu6_backward(const void* opaque, const Args& args, int phase, int slice) {
  const Floats last = last_passing(Activation::kRelu6);
  each(opaque, args, phase, slice, [last](Floats y, Floats dy) { return keep(passes16(y, last), dy); });
}
void gelu(const void* opaque, const Args& args, int phase, int slice) {
  each(opaque, args, phase, slice, [](Floats x, Floats) { return gelu16(x); });
}
// With f = 1 / (1 + e^(-2u)): d(x f)/dx = f + x f (1 - f) 2 du/dx.
void gelu_backward(const void* opaque, const Args& args, int phase, int slice) {
  each(opaque, args, phase, slice, [](Floats x, Floats dy) {
    const Floats f = gelu_factor(x);
    x = min(broadcast(20.0f), max(broadcast(-20.0f), x));
    const Floats one = broadcast(1.0f);
    const Floats slope = fma(x * x, broadcast(3.0f * 0.044715f), one);
    const Floats bell = x * f * (one - f);
    const Floats sum = fma(bell * broadcast(2.0f * 0.7978845608f), slope, f);
    return sum * dy;
  });
}
void add(const void* opaque, const Args& args, int phase, int slice) {
  const Bounds bounds = bounds_of(state_of(opaque)->attrs.activation);
  each(opaque, args, phase, slice, [bounds](Floats a, Floats b) { return bounded16(bounds, a + b); });
}
void scaled_add(const void* opaque, const Args& args, int phase, int slice) {
  const Floats scale_a = broadcast(state_of(opaque)->attrs.scale_a);
  const Floats scale_b = broadcast(state_of(opaque)->attrs.scale_b);
  each(opaque, args, phase, slice, [&](Floats a, Floats b) { return fma(scale_a, a, scale_b * b); });
}

}  // namespace

bool prepare_pointwise(const Problem& problem, Plan& plan) {
  Run run = add;
  if (problem.op == Op::kRelu) run = relu;
  if (problem.op == Op::kReluBackward) run = relu_backward;
  if (problem.op == Op::kRelu6) run = relu6;
  if (problem.op == Op::kRelu6Backward) run = relu6_backward;
  if (problem.op == Op::kGelu) run = gelu;
  if (problem.op == Op::kGeluBackward) run = gelu_backward;
  if (problem.op == Op::kScaledAdd) run = scaled_add;
  State* s = new_state(problem, plan, run);
  if (!s) return false;
  cut(s, plan, 0, (s->g.count + kBlock - 1) / kBlock, s->g.count * 8);
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
