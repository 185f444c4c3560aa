// Losses with targets of the same shape on CUDA, and their gradients: sigmoid cross-entropy, squared error and Huber
// (op_list.h).
#include "kernels/cuda/cuda.h"

namespace mlx::kernels::cuda {

struct LossOfElement {
  float loss, gradient;  // of the sum of the losses
};

// Sigmoid and logarithm are combined, so that nothing overflows.
__device__ inline LossOfElement binary(float x, float target, float smoothing) {
  const float t = target * (1.0f - smoothing) + 0.5f * smoothing;
  const float e = expf(-fabsf(x));
  const float sigmoid = x < 0.0f ? e / (1.0f + e) : 1.0f / (1.0f + e);
  return {(x < 0.0f ? 0.0f : x) - x * t + log1pf(e), sigmoid - t};
}

__device__ inline LossOfElement regression(float x, float target, float delta) {
  const float d = x - target;
  if (delta == 0.0f) return {d * d, 2.0f * d};
  if (fabsf(d) > delta) return {delta * (fabsf(d) - 0.5f * delta), d > 0.0f ? delta : -delta};
  return {0.5f * d * d, d};
}

template <bool kBinary>
__device__ LossOfElement loss_of(float x, float target, float setting) {
  return kBinary ? binary(x, target, setting) : regression(x, target, setting);
}

template <bool kBinary>
void run_target_loss(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const std::int64_t count = s.g.count, parts = parts_of(count);
  const Reals x = reals_in(s, args, 0, s.g.x_type);
  const RealsOut dx = reals_out(s, args, 1, s.g.gradient_type);
  const float *t = f32_in(&s, args, 1), *factor = f32_in(&s, args, 2);
  float* out = f32_out(&s, args, 0);
  std::int32_t *correct = s32_out(&s, args, 2), *counted = s32_out(&s, args, 3);
  const float setting = kBinary ? s.attrs.rate : s.attrs.delta, n = static_cast<float>(count);
  const auto element = [=] __device__(std::int64_t i) -> LossOfElement {
    return loss_of<kBinary>(x[i], t[i], setting);
  };
  auto *losses = static_cast<double*>(args.workspace), *right = losses + parts;
  sum_parts(
      args, count, [=] __device__(std::int64_t i) -> double { return element(i).loss; }, losses);
  if (correct)
    sum_parts(
        args, count, [=] __device__(std::int64_t i) -> double { return (x[i] > 0.0f) == (t[i] > 0.5f); }, right);
  if (dx.data)
    each(args, count,
         [=] __device__(std::int64_t i) { dx.store(i, (factor ? factor[0] : 1.0f) * (element(i).gradient / n)); });
  each(args, 1, [=] __device__(std::int64_t) {
    out[0] = count ? static_cast<float>(sum_of(losses, parts) / static_cast<double>(count)) : 0.0f;
    if (correct) correct[0] = static_cast<std::int32_t>(sum_of(right, parts));
    if (counted) counted[0] = static_cast<std::int32_t>(count);
  });
}

bool prepare_target_loss(const Problem& problem, Plan& plan) {
  const bool binary = problem.op == Op::kBinaryCrossEntropy;
  const State* s = new_state(problem, plan, binary ? run_target_loss<true> : run_target_loss<false>, Takes::kHalf);
  if (!s) return false;
  plan.workspace_bytes = 2 * sizeof(double) * static_cast<std::size_t>(parts_of(s->g.count));
  return true;
}

}  // namespace mlx::kernels::cuda
