// SGD with momentum, AdamW and Lion: one pass over parameter, gradient and state.
#include "kernels/simd/lanes.h"

namespace mlx::kernels::MLX_ISA {
namespace {

// The factor of gradients, input `i`; NaN if the step is skipped.
float factor_at(const State* s, const Args& args, int i) {
  const float* factor = f32_in(s, args, i);
  return factor ? factor[0] : 1.0f;
}

void sgd(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const float *w = f32_in(s, args, 0), *dw = f32_in(s, args, 1), *velocity = f32_in(s, args, 2);
  float *w_out = f32_out(s, args, 0), *velocity_out = f32_out(s, args, 1);
  const float factor = factor_at(s, args, 4);
  if (factor != factor) return;
  const Floats rate = broadcast(f32_in(s, args, 3)[0]), momentum = broadcast(s->attrs.momentum);
  const Floats decay = broadcast(s->attrs.weight_decay), scale = broadcast(factor);
  const Range range = elements_of(s, phase, slice, s->g.count);
  by_vectors(range.begin, range.end, [&](std::int64_t i, auto mask) {
    const Floats weight = load(w + i, mask);
    const Floats scaled = scale * load(dw + i, mask);
    const Floats gradient = fma(decay, weight, scaled);
    Floats moved = gradient;
    if (velocity) moved = fma(momentum, load(velocity + i, mask), gradient);
    if (velocity_out) store(velocity_out + i, moved, mask);
    const Floats change = s->attrs.nesterov ? fma(momentum, moved, gradient) : moved;
    store(w_out + i, fnma(rate, change, weight), mask);
  });
}

void adamw(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const float *w = f32_in(s, args, 0), *dw = f32_in(s, args, 1), *m = f32_in(s, args, 2), *v = f32_in(s, args, 3);
  float *w_out = f32_out(s, args, 0), *m_out = f32_out(s, args, 1), *v_out = f32_out(s, args, 2);
  const float factor = factor_at(s, args, 5);
  if (factor != factor) return;
  const double rate = f32_in(s, args, 4)[0], beta1 = s->attrs.beta1, beta2 = s->attrs.beta2;
  const std::uint64_t steps = args.step + 1;
  const Floats step = broadcast(static_cast<float>(rate / (1.0 - power(beta1, steps))));
  const Floats correction = broadcast(static_cast<float>(1.0 / (1.0 - power(beta2, steps))));
  const Floats kept = broadcast(static_cast<float>(1.0 - rate * s->attrs.weight_decay));
  const Floats epsilon = broadcast(s->attrs.epsilon), scale = broadcast(factor);
  const Floats keep1 = broadcast(s->attrs.beta1), take1 = broadcast(static_cast<float>(1.0 - beta1));
  const Floats keep2 = broadcast(s->attrs.beta2), take2 = broadcast(static_cast<float>(1.0 - beta2));
  const Range range = elements_of(s, phase, slice, s->g.count);
  by_vectors(range.begin, range.end, [&](std::int64_t i, auto mask) {
    const Floats gradient = scale * load(dw + i, mask);
    const Floats square = gradient * gradient;
    const Floats first = fma(keep1, load(m + i, mask), take1 * gradient);
    const Floats second = fma(keep2, load(v + i, mask), take2 * square);
    const Floats root = sqrt(second * correction) + epsilon;
    const Floats change = step * first / root;
    store(w_out + i, fms(kept, load(w + i, mask), change), mask);
    store(m_out + i, first, mask);
    store(v_out + i, second, mask);
  });
}

void lion(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const float *w = f32_in(s, args, 0), *dw = f32_in(s, args, 1), *m = f32_in(s, args, 2);
  float *w_out = f32_out(s, args, 0), *m_out = f32_out(s, args, 1);
  const float factor = factor_at(s, args, 4);
  if (factor != factor) return;
  const double rate = f32_in(s, args, 3)[0], beta1 = s->attrs.beta1, beta2 = s->attrs.beta2;
  const Floats step = broadcast(static_cast<float>(rate)), scale = broadcast(factor);
  const Floats kept = broadcast(static_cast<float>(1.0 - rate * s->attrs.weight_decay));
  const Floats keep1 = broadcast(s->attrs.beta1), take1 = broadcast(static_cast<float>(1.0 - beta1));
  const Floats keep2 = broadcast(s->attrs.beta2), take2 = broadcast(static_cast<float>(1.0 - beta2));
  const Floats zero = zeros(), one = broadcast(1.0f);
  const Range range = elements_of(s, phase, slice, s->g.count);
  by_vectors(range.begin, range.end, [&](std::int64_t i, auto mask) {
    const Floats gradient = scale * load(dw + i, mask);
    const Floats old = load(m + i, mask);
    const Floats mixed = fma(keep1, old, take1 * gradient);
    Floats sign = select(mixed > zero, one, mixed);  // NaN and 0 stay
    sign = select(mixed < zero, zero - one, sign);
    const Floats weight = kept * load(w + i, mask);
    store(w_out + i, fnma(step, sign, weight), mask);
    store(m_out + i, fma(keep2, old, take2 * gradient), mask);
  });
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

}  // namespace mlx::kernels::MLX_ISA
