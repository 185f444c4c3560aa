// SwiGLU (Shazeer 2020) on CUDA: silu(gate) · up or gelu(gate) · up, and its gradient.
#include "kernels/cuda/cuda.h"

namespace mlx::kernels::cuda {

__device__ inline float sigmoid(float x) {
  return 1.0f / (1.0f + expf(-x));
}

// The gate's activation and its slope. With f = sigmoid(gate): d silu = f (1 + gate (1 - f)).
__device__ inline float gate_of(Activation activation, float x) {
  return activation == Activation::kGelu ? gelu(x) : x * sigmoid(x);
}
__device__ inline float slope_of(Activation activation, float x) {
  const float f = sigmoid(x);
  return activation == Activation::kGelu ? gelu_slope(x) : f * (1.0f + x * (1.0f - f));
}

void run_swiglu(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const std::int64_t half = s.g.width / 2;
  const Reals x = reals_in(s, args, 0, s.g.x_type);
  const RealsOut y = reals_out(s, args, 0, s.g.y_type);
  const Activation activation = s.attrs.activation;
  each(args, s.g.rows * half, [=] __device__(std::int64_t i) {
    const std::int64_t at = i / half * 2 * half + i % half;
    y.store(i, gate_of(activation, x[at]) * x[at + half]);
  });
}

void run_swiglu_backward(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const std::int64_t half = s.g.width / 2;
  const Reals x = reals_in(s, args, 0, s.g.x_type), dys = reals_in(s, args, 1, s.g.dy_type);
  const RealsOut dx = reals_out(s, args, 0, s.g.y_type);
  const Activation activation = s.attrs.activation;
  each(args, s.g.rows * half, [=] __device__(std::int64_t i) {
    const std::int64_t at = i / half * 2 * half + i % half;
    const float gate = x[at], up = x[at + half], dy = dys[i];
    dx.store(at, dy * up * slope_of(activation, gate));
    dx.store(at + half, dy * gate_of(activation, gate));
  });
}

bool prepare_swiglu(const Problem& problem, Plan& plan) {
  return new_state(problem, plan, problem.op == Op::kSwiGlu ? run_swiglu : run_swiglu_backward, Takes::kHalf) !=
         nullptr;
}

}  // namespace mlx::kernels::cuda
