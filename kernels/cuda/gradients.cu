// What happens to gradients between backward and update, on CUDA: running sums (accumulation over micro-batches,
// averages of weights), norms, and the direction that Muon orthogonalises (Jordan et al. 2024).
#include "kernels/cuda/cuda.h"

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

inline constexpr double kLeastNorm = 1e-7;  // added, so that a gradient of zeros stays one

void run_muon_direction(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const float *dw = f32_in(&s, args, 0), *velocity = f32_in(&s, args, 1), *norm = f32_in(&s, args, 2);
  float *velocity_out = f32_out(&s, args, 0), *x = f32_out(&s, args, 1);
  const float momentum = s.attrs.momentum, clip = s.attrs.clip;
  const bool nesterov = s.attrs.nesterov;
  each(args, s.g.count, [=] __device__(std::int64_t i) {
    const float gradient = (norm && norm[0] > clip ? clip / norm[0] : 1.0f) * dw[i];
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
