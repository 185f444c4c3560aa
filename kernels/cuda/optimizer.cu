// SGD with momentum (as in Sutskever et al. 2013, without dampening), AdamW (Loshchilov & Hutter 2019) and Lion (Chen
// et al. 2023) on CUDA, one thread an element.
#include "kernels/cuda/cuda.h"

namespace mlx::kernels::cuda {

// What gradients count times; NaN where the step is left out.
__device__ inline float factor_of(const float* factor) {
  return factor ? factor[0] : 1.0f;
}

void run_sgd(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const float *w = f32_in(&s, args, 0), *dw = f32_in(&s, args, 1), *velocity = f32_in(&s, args, 2);
  const float *rate = f32_in(&s, args, 3), *factor = f32_in(&s, args, 4);
  float *w_out = f32_out(&s, args, 0), *velocity_out = f32_out(&s, args, 1);
  const float momentum = s.attrs.momentum, decay = s.attrs.weight_decay;
  const bool nesterov = s.attrs.nesterov;
  each(args, s.g.count, [=] __device__(std::int64_t i) {
    const float scale = factor_of(factor);
    if (scale != scale) return;
    const float gradient = scale * dw[i] + decay * w[i];
    const float moved = velocity ? momentum * velocity[i] + gradient : gradient;
    const float change = nesterov ? gradient + momentum * moved : moved;
    w_out[i] = w[i] - rate[0] * change;
    if (velocity_out) velocity_out[i] = moved;
  });
}

void run_adamw(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const float *w = f32_in(&s, args, 0), *dw = f32_in(&s, args, 1), *m = f32_in(&s, args, 2), *v = f32_in(&s, args, 3);
  const float *rate = f32_in(&s, args, 4), *factor = f32_in(&s, args, 5);
  float *w_out = f32_out(&s, args, 0), *m_out = f32_out(&s, args, 1), *v_out = f32_out(&s, args, 2);
  const float beta1 = s.attrs.beta1, beta2 = s.attrs.beta2, epsilon = s.attrs.epsilon, decay = s.attrs.weight_decay;
  // The bias of the first steps is worked out once, by one thread, in double.
  auto* bias = static_cast<float*>(args.workspace);
  const RandomKey* key = args.key;
  each(args, 1, [=] __device__(std::int64_t) {
    const double steps = static_cast<double>(key->step) + 1.0;
    bias[0] = static_cast<float>(1.0 - pow(double{beta1}, steps));
    bias[1] = static_cast<float>(1.0 - pow(double{beta2}, steps));
  });
  each(args, s.g.count, [=] __device__(std::int64_t i) {
    const float scale = factor_of(factor);
    if (scale != scale) return;
    const float gradient = scale * dw[i];
    const float first = beta1 * m[i] + (1.0f - beta1) * gradient;
    const float second = beta2 * v[i] + (1.0f - beta2) * gradient * gradient;
    const float decayed = w[i] - rate[0] * decay * w[i];
    w_out[i] = decayed - rate[0] * (first / bias[0]) / (sqrtf(second / bias[1]) + epsilon);
    m_out[i] = first;
    v_out[i] = second;
  });
}

void run_lion(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const float *w = f32_in(&s, args, 0), *dw = f32_in(&s, args, 1), *m = f32_in(&s, args, 2);
  const float *rate = f32_in(&s, args, 3), *factor = f32_in(&s, args, 4);
  float *w_out = f32_out(&s, args, 0), *m_out = f32_out(&s, args, 1);
  const float beta1 = s.attrs.beta1, beta2 = s.attrs.beta2, decay = s.attrs.weight_decay;
  each(args, s.g.count, [=] __device__(std::int64_t i) {
    const float scale = factor_of(factor);
    if (scale != scale) return;
    const float gradient = scale * dw[i];
    const float mixed = beta1 * m[i] + (1.0f - beta1) * gradient;
    const float sign = mixed > 0.0f ? 1.0f : mixed < 0.0f ? -1.0f : mixed;  // NaN stays
    w_out[i] = w[i] - rate[0] * (sign + decay * w[i]);
    m_out[i] = beta2 * m[i] + (1.0f - beta2) * gradient;
  });
}

bool prepare_optimizer(const Problem& problem, Plan& plan) {
  const Run run = problem.op == Op::kAdamW ? run_adamw : problem.op == Op::kLion ? run_lion : run_sgd;
  if (!new_state(problem, plan, run)) return false;
  if (problem.op == Op::kAdamW) plan.workspace_bytes = 2 * sizeof(float);
  return true;
}

}  // namespace mlx::kernels::cuda
