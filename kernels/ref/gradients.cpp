// Reference kernels between backward and update: running sums (accumulation over micro-batches, averages of weights),
// norms, and the direction that Muon orthogonalises (Jordan et al. 2024).
#include "kernels/loss_scale.h"
#include "kernels/ref/ref.h"

namespace mlx::kernels::ref {
namespace {

void accumulate(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const float *sum = f32_in(&s, args, 0), *x = f32_in(&s, args, 1), *factors = f32_in(&s, args, 2);
  float* out = f32_out(&s, args, 0);
  const double keep = factors[0], take = factors[1];
  const Range range = elements_of(&s, phase, slice, s.g.count);
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    const double kept = keep == 0.0 ? 0.0 : keep * sum[i];
    out[i] = static_cast<float>(kept + take * x[i]);
  }
}

double sum_of_squares(const float* x, Range range) {
  double sum = 0.0;
  for (std::int64_t i = range.begin; i < range.end; ++i) sum += double{x[i]} * x[i];
  return sum;
}

double total(const State& s, const Args& args) {
  double sum = 0.0;
  for (int slice = 0; slice < s.slices[0]; ++slice) sum += static_cast<const double*>(args.workspace)[slice];
  return sum;
}

void norm(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  if (phase == 0) {
    const Range range = elements_of(&s, phase, slice, s.g.count);
    static_cast<double*>(args.workspace)[slice] = sum_of_squares(f32_in(&s, args, 0), range);
    return;
  }
  const double before = s.g.has_input[1] ? f32_in(&s, args, 1)[0] : 0.0;
  f32_out(&s, args, 0)[0] = static_cast<float>(std::sqrt(before * before + total(s, args)));
}

constexpr double kLeastNorm = 1e-7;  // avoids a division by zero for a zero gradient

void muon_direction(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  float *velocity_out = f32_out(&s, args, 0), *x = f32_out(&s, args, 1);
  const Range range = elements_of(&s, phase, slice, s.g.count);
  if (phase == 1) {
    const double scale = 1.0 / (std::sqrt(total(s, args)) + kLeastNorm);
    for (std::int64_t i = range.begin; i < range.end; ++i) x[i] = static_cast<float>(scale * x[i]);
    return;
  }
  const float *dw = f32_in(&s, args, 0), *velocity = f32_in(&s, args, 1), *factor = f32_in(&s, args, 2);
  const double scale = factor ? factor[0] : 1.0, momentum = s.attrs.momentum;
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    x[i] = 0.0f;
    if (std::isnan(scale)) continue;
    const double gradient = scale * dw[i], moved = momentum * velocity[i] + gradient;
    velocity_out[i] = static_cast<float>(moved);
    x[i] = static_cast<float>(s.attrs.nesterov ? gradient + momentum * moved : moved);
  }
  static_cast<double*>(args.workspace)[slice] = sum_of_squares(x, range);
}

void gradient_scale(const void* opaque, const Args& args, int, int) {
  const State& s = state_of(opaque);
  const float *norm = f32_in(&s, args, 0), *held = f32_in(&s, args, 1);
  const LossScale state = held ? LossScale{held[0], held[1]} : LossScale{};
  const GradientScale out = kernels::gradient_scale(norm[0], s.attrs.clip, state, held != nullptr);
  f32_out(&s, args, 0)[0] = out.factor;
  f32_out(&s, args, 1)[0] = out.norm;
  if (float* taken = f32_out(&s, args, 2)) taken[0] = out.taken;
  if (float* next = f32_out(&s, args, 3)) next[0] = out.next.scale, next[1] = out.next.good;
}

}  // namespace

bool prepare_gradient_scale(const Problem& problem, Plan& plan) {
  return new_state(problem, plan, gradient_scale) != nullptr;
}

bool prepare_gradients(const Problem& problem, Plan& plan) {
  Run run = accumulate;
  if (problem.op == Op::kNorm) run = norm;
  if (problem.op == Op::kMuonDirection) run = muon_direction;
  State* s = new_state(problem, plan, run);
  if (!s) return false;
  const std::int64_t blocks = (s->g.count + kBlock - 1) / kBlock;
  cut(s, plan, 0, blocks, s->g.count * 8);
  if (problem.op == Op::kAccumulate) return true;
  cut(s, plan, 1, problem.op == Op::kNorm ? 1 : blocks, problem.op == Op::kNorm ? 0 : s->g.count * 8);
  plan.workspace_bytes = static_cast<std::size_t>(s->slices[0]) * sizeof(double);
  return true;
}

}  // namespace mlx::kernels::ref
