// Reference losses with targets of the same shape, and their gradients: sigmoid cross-entropy, squared error and Huber
// (op_list.h). Partial sums of slices are added in slice order.
#include "kernels/ref/ref.h"

namespace mlx::kernels::ref {
namespace {

// The results of phase 0 for one slice, used in phase 1.
struct Part {
  double loss;
  std::int64_t correct;
};

struct Element {
  double loss, gradient;  // of the sum of the losses
};

// Sigmoid and logarithm are combined, so that nothing overflows.
Element binary(double x, double target, double smoothing) {
  const double t = target * (1.0 - smoothing) + 0.5 * smoothing;
  const double e = std::exp(-std::fabs(x));
  const double sigmoid = x < 0.0 ? e / (1.0 + e) : 1.0 / (1.0 + e);
  return {(x < 0.0 ? 0.0 : x) - x * t + std::log1p(e), sigmoid - t};
}

Element regression(double x, double target, double delta) {
  const double d = x - target;
  if (delta == 0.0) return {d * d, 2.0 * d};
  if (std::fabs(d) > delta) return {delta * (std::fabs(d) - 0.5 * delta), d > 0.0 ? delta : -delta};
  return {0.5 * d * d, d};
}

template <bool kBinary>
void target_loss(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  auto* parts = static_cast<Part*>(args.workspace);
  const auto count = static_cast<double>(s.g.count);
  if (phase == 0) {
    const Range range = elements_of(&s, phase, slice, s.g.count);
    const float* t = f32_in(&s, args, 1);
    const double factor = factor_of_loss(s, args);
    Part part{0.0, 0};
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      const float x = load_real(args.inputs[0], s.g.x_type, i);
      const Element e = kBinary ? binary(x, t[i], s.attrs.rate) : regression(x, t[i], s.attrs.delta);
      part.loss += e.loss;
      part.correct += (x > 0.0f) == (t[i] > 0.5f);
      if (s.g.has_output[1]) store_real(args.outputs[1], s.g.gradient_type, i, factor * (e.gradient / count));
    }
    parts[slice] = part;
    return;
  }
  Part sum{0.0, 0};
  for (int i = 0; i < s.slices[0]; ++i) sum.loss += parts[i].loss, sum.correct += parts[i].correct;
  f32_out(&s, args, 0)[0] = s.g.count ? static_cast<float>(sum.loss / count) : 0.0f;
  if (s.g.has_output[2]) s32_out(&s, args, 2)[0] = static_cast<std::int32_t>(sum.correct);
  if (s.g.has_output[3]) s32_out(&s, args, 3)[0] = static_cast<std::int32_t>(s.g.count);
}

}  // namespace

bool prepare_target_loss(const Problem& problem, Plan& plan) {
  const Run run = problem.op == Op::kBinaryCrossEntropy ? target_loss<true> : target_loss<false>;
  State* s = new_state(problem, plan, run, Takes::kHalf);
  if (!s) return false;
  cut(s, plan, 0, (s->g.count + kBlock - 1) / kBlock, s->g.count * 12);
  cut(s, plan, 1, 1, 0);
  plan.workspace_bytes = sizeof(Part) * static_cast<std::size_t>(plan.slices[0]);
  return true;
}

}  // namespace mlx::kernels::ref
