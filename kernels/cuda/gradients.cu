// Kernels between backward and update on CUDA: running sums (accumulation over micro-batches, averages of weights),
// norms, scales, and the direction that Muon orthogonalises (Jordan et al. 2024).
#include "kernels/cuda/cuda.h"
#include "kernels/loss_scale.h"

namespace mlx::kernels::cuda {

void run_accumulate(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const float *sum = f32_in(&s, args, 0), *x = f32_in(&s, args, 1), *factors = f32_in(&s, args, 2);
  float* out = f32_out(&s, args, 0);
  each(args, s.g.count, [=] __device__(std::int64_t i) {
    const float kept = factors[0] == 0.0f ? 0.0f : factors[0] * sum[i];
    out[i] = kept + factors[1] * x[i];
  });
}

void run_norm(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const float *x = f32_in(&s, args, 0), *before = f32_in(&s, args, 1);
  float* out = f32_out(&s, args, 0);
  auto* parts = static_cast<double*>(args.workspace);
  const std::int64_t count = parts_of(s.g.count);
  sum_parts(
      args, s.g.count, [=] __device__(std::int64_t i) -> double { return double{x[i]} * x[i]; }, parts);
  each(args, 1, [=] __device__(std::int64_t) {
    const double old = before ? before[0] : 0.0;
    out[0] = static_cast<float>(sqrt(old * old + sum_of(parts, count)));
  });
}

inline constexpr double kLeastNorm = 1e-7;  // avoids a division by zero for a zero gradient

void run_muon_direction(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const float *dw = f32_in(&s, args, 0), *velocity = f32_in(&s, args, 1), *factor = f32_in(&s, args, 2);
  float *velocity_out = f32_out(&s, args, 0), *x = f32_out(&s, args, 1);
  const float momentum = s.attrs.momentum;
  const bool nesterov = s.attrs.nesterov;
  each(args, s.g.count, [=] __device__(std::int64_t i) {
    const float own = factor ? factor[0] : 1.0f;
    if (own != own) {  // the step is skipped
      x[i] = 0.0f;
      return;
    }
    const float gradient = own * dw[i];
    const float moved = momentum * velocity[i] + gradient;
    x[i] = nesterov ? gradient + momentum * moved : moved;
    velocity_out[i] = moved;
  });
  auto* parts = static_cast<double*>(args.workspace);
  const std::int64_t count = parts_of(s.g.count);
  double* scale = parts + count;
  sum_parts(
      args, s.g.count, [=] __device__(std::int64_t i) -> double { return double{x[i]} * x[i]; }, parts);
  each(args, 1, [=] __device__(std::int64_t) { scale[0] = 1.0 / (sqrt(sum_of(parts, count)) + kLeastNorm); });
  each(args, s.g.count, [=] __device__(std::int64_t i) { x[i] = static_cast<float>(scale[0] * x[i]); });
}

void run_gradient_scale(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const float *norm = f32_in(&s, args, 0), *held = f32_in(&s, args, 1), clip = s.attrs.clip;
  float *factor = f32_out(&s, args, 0), *own_norm = f32_out(&s, args, 1), *taken = f32_out(&s, args, 2);
  float* next = f32_out(&s, args, 3);
  each(args, 1, [=] __device__(std::int64_t) {
    LossScale before;
    if (held) before.scale = held[0], before.good = held[1];
    const GradientScale out = gradient_scale(norm[0], clip, before, held != nullptr);
    factor[0] = out.factor;
    own_norm[0] = out.norm;
    if (taken) taken[0] = out.taken;
    if (next) next[0] = out.next.scale, next[1] = out.next.good;
  });
}

bool prepare_gradient_scale(const Problem& problem, Plan& plan) {
  return new_state(problem, plan, run_gradient_scale) != nullptr;
}

bool prepare_gradients(const Problem& problem, Plan& plan) {
  const Run run = problem.op == Op::kNorm            ? run_norm
                  : problem.op == Op::kMuonDirection ? run_muon_direction
                                                     : run_accumulate;
  const State* s = new_state(problem, plan, run);
  if (!s) return false;
  if (problem.op != Op::kAccumulate)
    plan.workspace_bytes = sizeof(double) * static_cast<std::size_t>(parts_of(s->g.count) + 1);
  return true;
}

}  // namespace mlx::kernels::cuda
