// Reference SGD with momentum (as in Sutskever et al. 2013, without dampening), AdamW (Loshchilov & Hutter 2019) and
// Lion (Chen et al. 2023).
#include "kernels/ref/ref.h"

namespace mlx::kernels::ref {
namespace {

// The factor that gradients are multiplied by, input `i`; NaN if the step is skipped.
double factor_at(const State& s, const Args& args, int i) {
  const float* factor = f32_in(&s, args, i);
  return factor ? factor[0] : 1.0;
}

void sgd(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const float *w = f32_in(&s, args, 0), *dw = f32_in(&s, args, 1), *velocity = f32_in(&s, args, 2);
  float *w_out = f32_out(&s, args, 0), *velocity_out = f32_out(&s, args, 1);
  const double rate = f32_in(&s, args, 3)[0], momentum = s.attrs.momentum;
  const double scale = factor_at(s, args, 4);
  if (std::isnan(scale)) return;
  const Range range = elements_of(&s, phase, slice, s.g.count);
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    const double gradient = scale * dw[i] + double{s.attrs.weight_decay} * w[i];
    const double moved = velocity ? momentum * velocity[i] + gradient : gradient;
    if (velocity_out) velocity_out[i] = static_cast<float>(moved);
    w_out[i] = static_cast<float>(w[i] - rate * (s.attrs.nesterov ? gradient + momentum * moved : moved));
  }
}

void adamw(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const float *w = f32_in(&s, args, 0), *dw = f32_in(&s, args, 1);
  const float *m = f32_in(&s, args, 2), *v = f32_in(&s, args, 3);
  float *w_out = f32_out(&s, args, 0), *m_out = f32_out(&s, args, 1), *v_out = f32_out(&s, args, 2);
  const double rate = f32_in(&s, args, 4)[0], beta1 = s.attrs.beta1, beta2 = s.attrs.beta2;
  const double steps = static_cast<double>(args.step) + 1.0;
  const double bias1 = 1.0 - std::pow(beta1, steps), bias2 = 1.0 - std::pow(beta2, steps);
  const double scale = factor_at(s, args, 5);
  if (std::isnan(scale)) return;
  const Range range = elements_of(&s, phase, slice, s.g.count);
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    const double gradient = scale * dw[i];
    const double first = beta1 * m[i] + (1.0 - beta1) * gradient;
    const double second = beta2 * v[i] + (1.0 - beta2) * gradient * gradient;
    const double decayed = w[i] - rate * s.attrs.weight_decay * w[i];
    w_out[i] = static_cast<float>(decayed - rate * (first / bias1) / (std::sqrt(second / bias2) + s.attrs.epsilon));
    m_out[i] = static_cast<float>(first);
    v_out[i] = static_cast<float>(second);
  }
}

void lion(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const float *w = f32_in(&s, args, 0), *dw = f32_in(&s, args, 1), *m = f32_in(&s, args, 2);
  float *w_out = f32_out(&s, args, 0), *m_out = f32_out(&s, args, 1);
  const double rate = f32_in(&s, args, 3)[0], beta1 = s.attrs.beta1, beta2 = s.attrs.beta2;
  const double scale = factor_at(s, args, 4);
  if (std::isnan(scale)) return;
  const Range range = elements_of(&s, phase, slice, s.g.count);
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    const double gradient = scale * dw[i];
    const double mixed = beta1 * m[i] + (1.0 - beta1) * gradient;
    const double sign = mixed > 0.0 ? 1.0 : mixed < 0.0 ? -1.0 : mixed;  // NaN stays NaN
    w_out[i] = static_cast<float>(w[i] - rate * (sign + s.attrs.weight_decay * w[i]));
    m_out[i] = static_cast<float>(beta2 * m[i] + (1.0 - beta2) * gradient);
  }
}

}  // namespace

bool prepare_optimizer(const Problem& problem, Plan& plan) {
  Run run = sgd;
  if (problem.op == Op::kAdamW) run = adamw;
  if (problem.op == Op::kLion) run = lion;
  State* s = new_state(problem, plan, run);
  if (!s) return false;
  cut(s, plan, 0, (s->g.count + kBlock - 1) / kBlock, s->g.count * 16);
  return true;
}

}  // namespace mlx::kernels::ref
