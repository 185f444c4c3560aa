// SwiGLU, silu(gate) · up or gelu(gate) · up, and its gradient: one pass at memory speed. X, D and Y are the storage
// types of the first input, the gradient and the output: float or BF16.
#include "kernels/simd/lanes.h"

namespace mlx::kernels::MLX_ISA {
namespace {

// 1 / (1 + e^-x).
inline Floats sigmoid16(Floats x) {
  const Floats one = broadcast(1.0f);
  return one / (one + exp16(zeros() - x));
}

// The gate's activation, and its slope. With f = sigmoid(gate): d silu = f (1 + gate (1 - f)).
struct Silu {
  Floats operator()(Floats x) const { return x * sigmoid16(x); }
  Floats slope(Floats x) const {
    const Floats one = broadcast(1.0f), f = sigmoid16(x);
    return f * fma(x, one - f, one);
  }
};
struct GatedGelu {
  Floats operator()(Floats x) const { return gelu16(x); }
  Floats slope(Floats x) const { return gelu_slope16(x); }
};

template <typename Gate, typename X, typename Y>
void forward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const std::int64_t half = s->g.width / 2;
  const Range rows = range_of(s, phase, slice);
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    const X *gate = static_cast<const X*>(args.inputs[0]) + r * 2 * half, *up = gate + half;
    Y* y = static_cast<Y*>(args.outputs[0]) + r * half;
    by_vectors(0, half, [&](std::int64_t i, auto mask) {
      const Floats g = load(gate + i, mask), u = load(up + i, mask);
      store(y + i, Gate()(g) * u, mask);
    });
  }
}

template <typename Gate, typename X, typename D, typename Y>
void backward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const std::int64_t half = s->g.width / 2;
  const Range rows = range_of(s, phase, slice);
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    const X *gate = static_cast<const X*>(args.inputs[0]) + r * 2 * half, *up = gate + half;
    const D* dy = static_cast<const D*>(args.inputs[1]) + r * half;
    Y* dx = static_cast<Y*>(args.outputs[0]) + r * 2 * half;
    by_vectors(0, half, [&](std::int64_t i, auto mask) {
      const Floats g = load(gate + i, mask), u = load(up + i, mask);
      const Floats d = load(dy + i, mask);
      store(dx + i, d * u * Gate().slope(g), mask);
      store(dx + half + i, d * Gate()(g), mask);
    });
  }
}

template <typename Gate>
Run run_of(Op op, const Geometry& g) {
  return stored_as(g.x_type, [&](auto x) {
    return stored_as(g.y_type, [&](auto y) {
      if (op == Op::kSwiGlu) return Run{forward<Gate, decltype(x), decltype(y)>};
      return stored_as(g.dy_type, [&](auto dy) { return backward<Gate, decltype(x), decltype(dy), decltype(y)>; });
    });
  });
}

}  // namespace

bool prepare_swiglu(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, nullptr, Takes::kBF16);
  if (!s) return false;
  const bool gelu = problem.attrs.activation == Activation::kGelu;
  plan.run = gelu ? run_of<GatedGelu>(problem.op, s->g) : run_of<Silu>(problem.op, s->g);
  cut(s, plan, 0, s->g.rows, s->g.count * 8);
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
