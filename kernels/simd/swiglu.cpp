// SwiGLU, silu(gate) · up, and its gradient: one pass at memory speed. Y is what the output is stored as, float or
// BF16.
#include "kernels/simd/lanes.h"

namespace mlx::kernels::MLX_ISA {
namespace {

// 1 / (1 + e^-x).
inline Floats sigmoid16(Floats x) {
  const Floats one = broadcast(1.0f);
  return one / (one + exp16(zeros() - x));
}

template <typename Y>
void forward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const std::int64_t half = s->g.width / 2;
  const Range rows = range_of(s, phase, slice);
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    const float *gate = f32_in(s, args, 0) + r * 2 * half, *up = gate + half;
    Y* y = static_cast<Y*>(args.outputs[0]) + r * half;
    by_vectors(0, half, [&](std::int64_t i, auto mask) {
      const Floats g = load(gate + i, mask), u = load(up + i, mask);
      store(y + i, g * sigmoid16(g) * u, mask);
    });
  }
}

// With f = sigmoid(gate): d silu = f (1 + gate (1 - f)).
template <typename Y>
void backward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const std::int64_t half = s->g.width / 2;
  const Floats one = broadcast(1.0f);
  const Range rows = range_of(s, phase, slice);
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    const float *gate = f32_in(s, args, 0) + r * 2 * half, *up = gate + half, *dy = f32_in(s, args, 1) + r * half;
    Y* dx = static_cast<Y*>(args.outputs[0]) + r * 2 * half;
    by_vectors(0, half, [&](std::int64_t i, auto mask) {
      const Floats g = load(gate + i, mask), u = load(up + i, mask);
      const Floats d = load(dy + i, mask), f = sigmoid16(g);
      const Floats slope = f * fma(g, one - f, one);
      store(dx + i, d * u * slope, mask);
      store(dx + half + i, d * (g * f), mask);
    });
  }
}

}  // namespace

bool prepare_swiglu(const Problem& problem, Plan& plan) {
  const bool back = problem.op == Op::kSwiGluBackward;
  State* s = new_state(problem, plan, back ? backward<float> : forward<float>, Takes::kBF16);
  if (!s) return false;
  if (s->g.y_type == DType::kBF16) plan.run = back ? backward<BF16> : forward<BF16>;
  cut(s, plan, 0, s->g.rows, s->g.count * 8);
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
