// Losses with targets of the same shape, and their gradients: sigmoid cross-entropy, squared error and Huber.
#include "kernels/simd/lanes.h"

namespace mlx::kernels::MLX_ISA {
namespace {

// The results of phase 0 for one slice, used in phase 1.
struct Part {
  double loss;
  std::int64_t correct;
};

// Sixteen sums in double precision.
struct Sums {
  Doubles sums = doubles(0.0);
  void add(Floats x) { sums = sums + to_doubles(x); }
  double total() const { return lane_sum(sums); }
};

// Sum of log(1 + e) for e in [0, 1]. Factors are multiplied while a double has room for the product, then one logarithm
// is added.
struct LogSums {
  Doubles products = doubles(1.0);
  double sum = 0.0;
  int factors = 0;
  void add(Floats e) {
    products = fma(products, to_doubles(e), products);
    if (++factors == 500) take();
  }
  void take() {
    double product[16];
    store(product, products);
    for (double p : product) sum += logarithm(p);
    products = doubles(1.0);
    factors = 0;
  }
};

Part binary(const State* s, const float* x, const float* t, float* dx, Range range) {
  const Floats one = broadcast(1.0f), zero = zeros();
  const Floats kept = broadcast(1.0f - s->attrs.rate), share = broadcast(0.5f * s->attrs.rate);
  const Floats scale = broadcast(1.0f / static_cast<float>(s->g.count));
  Sums linear;
  LogSums logs;
  std::int64_t correct = 0;
  by_vectors(range.begin, range.end, [&](std::int64_t i, auto mask) {
    const Floats v = load(x + i, mask), truth = load(t + i, mask);
    const Floats target = fma(truth, kept, share);
    const Floats e = exp16(zero - abs(v));
    linear.add(keep(mask, fnma(v, target, relu16(v))));
    logs.add(keep(mask, e));
    correct += count(mask & ~((v > zero) ^ (truth > broadcast(0.5f))));
    if (!dx) return;
    // (1 - t) sigmoid(x) - t sigmoid(-x): unlike sigmoid(x) - t it keeps its digits if the label is certain.
    const Mask below = v < zero;
    const Floats large = one / (one + e), small = e * large;
    const Floats up = select(below, small, large), down = select(below, large, small);
    const Floats gradient = fms(one - target, up, target * down);
    store(dx + i, gradient * scale, mask);
  });
  logs.take();
  return {linear.total() + logs.sum, correct};
}

Part regression(const State* s, const float* x, const float* t, float* dx, Range range) {
  const Floats delta = broadcast(s->attrs.delta), half_delta = broadcast(0.5f * s->attrs.delta);
  const Floats inverse = broadcast(1.0f / static_cast<float>(s->g.count)), half = broadcast(0.5f);
  const bool huber = s->attrs.delta > 0.0f;
  Sums sums;
  by_vectors(range.begin, range.end, [&](std::int64_t i, auto mask) {
    const Floats d = load(x + i, mask) - load(t + i, mask);
    Floats loss = d * d, gradient = d + d;
    if (huber) {
      const Floats size = abs(d);
      const Mask far = size > delta;
      loss = select(far, delta * (size - half_delta), half * loss);
      gradient = select(far, delta | sign_bits(d), d);
    }
    sums.add(loss);
    if (dx) store(dx + i, gradient * inverse, mask);
  });
  return {sums.total(), 0};
}

template <bool kBinary>
void target_loss(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  auto* parts = static_cast<Part*>(args.workspace);
  if (phase == 0) {
    const Range range = elements_of(s, phase, slice, s->g.count);
    const float *x = f32_in(s, args, 0), *t = f32_in(s, args, 1);
    float* dx = f32_out(s, args, 1);
    parts[slice] = kBinary ? binary(s, x, t, dx, range) : regression(s, x, t, dx, range);
    return;
  }
  Part sum{0.0, 0};
  for (int i = 0; i < s->slices[0]; ++i) sum.loss += parts[i].loss, sum.correct += parts[i].correct;
  f32_out(s, args, 0)[0] = s->g.count ? static_cast<float>(sum.loss / static_cast<double>(s->g.count)) : 0.0f;
  if (s->g.has_output[2]) s32_out(s, args, 2)[0] = static_cast<std::int32_t>(sum.correct);
  if (s->g.has_output[3]) s32_out(s, args, 3)[0] = static_cast<std::int32_t>(s->g.count);
}

}  // namespace

bool prepare_target_loss(const Problem& problem, Plan& plan) {
  if (problem.input_count > 2 && problem.inputs[2].rank >= 0) return false;  // only GPUs take the factor of a loss
  State* s = new_state(problem, plan, problem.op == Op::kBinaryCrossEntropy ? target_loss<true> : target_loss<false>);
  if (!s) return false;
  cut(s, plan, 0, (s->g.count + kBlock - 1) / kBlock, s->g.count * 12);
  cut(s, plan, 1, 1, 0);
  plan.workspace_bytes = bytes_of(plan.slices[0], sizeof(Part));
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
