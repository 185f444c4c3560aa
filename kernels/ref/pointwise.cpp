// Reference relu, relu6, both forms of gelu, soft caps, addition and their gradients (op_list.h).
#include "kernels/ref/ref.h"

namespace mlx::kernels::ref {
namespace {

template <typename Body>
void each(const void* opaque, const Args& args, int phase, int slice, Body body) {
  const State& s = state_of(opaque);
  const void* b = s.g.has_input[1] ? args.inputs[1] : nullptr;
  const Range range = elements_of(&s, phase, slice, s.g.count);
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    const float a = load_real(args.inputs[0], s.g.x_type, i);
    store_real(args.outputs[0], s.g.y_type, i, body(a, b ? load_real(b, s.g.dy_type, i) : 0.0f));
  }
}

void relu(const void* opaque, const Args& args, int phase, int slice) {
  each(opaque, args, phase, slice, [](float x, float) { return x < 0.0f ? 0.0f : x; });
}
void relu_backward(const void* opaque, const Args& args, int phase, int slice) {
  each(opaque, args, phase, slice, [](float y, float dy) { return passes(Activation::kRelu, y) ? dy : 0.0f; });
}
void relu6(const void* opaque, const Args& args, int phase, int slice) {
  each(opaque, args, phase, slice, [](float x, float) { return activate(Activation::kRelu6, x); });
}
void relu6_backward(const void* opaque, const Args& args, int phase, int slice) {
  each(opaque, args, phase, slice, [](float y, float dy) { return passes(Activation::kRelu6, y) ? dy : 0.0f; });
}
void gelu_forward(const void* opaque, const Args& args, int phase, int slice) {
  each(opaque, args, phase, slice, [](float x, float) { return gelu(x); });
}
void gelu_backward(const void* opaque, const Args& args, int phase, int slice) {
  each(opaque, args, phase, slice, [](float x, float dy) { return gelu_slope(x) * dy; });
}
void gelu_erf(const void* opaque, const Args& args, int phase, int slice) {
  each(opaque, args, phase, slice, [](float single, float) {
    const double x = single;
    if (x < -kGeluEnd || x > kGeluEnd) return x > 0.0 ? x : 0.0;
    return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
  });
}
void soft_cap(const void* opaque, const Args& args, int phase, int slice) {
  const double cap = state_of(opaque).attrs.cap;
  each(opaque, args, phase, slice, [cap](float x, float) { return cap * std::tanh(x / cap); });
}
void soft_cap_backward(const void* opaque, const Args& args, int phase, int slice) {
  const double cap = state_of(opaque).attrs.cap;
  each(opaque, args, phase, slice, [cap](float x, float dy) {
    const double bound = std::tanh(x / cap);
    return (1.0 - bound * bound) * dy;
  });
}
void add(const void* opaque, const Args& args, int phase, int slice) {
  const Activation activation = state_of(opaque).attrs.activation;
  each(opaque, args, phase, slice, [activation](float a, float b) { return activate(activation, a + b); });
}
void scaled_add(const void* opaque, const Args& args, int phase, int slice) {
  const double scale_a = state_of(opaque).attrs.scale_a, scale_b = state_of(opaque).attrs.scale_b;
  each(opaque, args, phase, slice, [&](float a, float b) { return scale_a * a + scale_b * b; });
}

}  // namespace

bool prepare_pointwise(const Problem& problem, Plan& plan) {
  Run run = add;
  if (problem.op == Op::kRelu) run = relu;
  if (problem.op == Op::kReluBackward) run = relu_backward;
  if (problem.op == Op::kRelu6) run = relu6;
  if (problem.op == Op::kRelu6Backward) run = relu6_backward;
  if (problem.op == Op::kGelu) run = gelu_forward;
  if (problem.op == Op::kGeluBackward) run = gelu_backward;
  if (problem.op == Op::kGeluErf) run = gelu_erf;
  if (problem.op == Op::kSoftCap) run = soft_cap;
  if (problem.op == Op::kSoftCapBackward) run = soft_cap_backward;
  if (problem.op == Op::kScaledAdd) run = scaled_add;
  State* s = new_state(problem, plan, run, Takes::kHalf);
  if (!s) return false;
  cut(s, plan, 0, (s->g.count + kBlock - 1) / kBlock, s->g.count * 8);
  return true;
}

}  // namespace mlx::kernels::ref
