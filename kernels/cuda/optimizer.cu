// SGD with momentum (as in Sutskever et al. 2013, without dampening), AdamW (Loshchilov & Hutter 2019) and Lion (Chen
// et al. 2023) on CUDA: one thread per element, and all parameters of a model in a few launches.
#include "kernels/cuda/group.h"

namespace mlx::kernels::cuda {
namespace {

// A parameter, updated in place with its optimizer state; null for state that the optimizer does not have.
struct Updated {
  float* w;
  const float* dw;
  float *first, *second;
  std::int64_t count;
  float decay;
};

// The factor of gradients; NaN if the step is skipped.
__device__ inline float factor_of(const float* factor) {
  return factor ? factor[0] : 1.0f;
}

struct Sgd {
  const float *rate, *factor;
  float momentum;
  bool nesterov;
  bool operator==(const Sgd&) const = default;
  using Begun = float;
  __device__ Begun begin() const { return factor_of(factor); }
  __device__ void operator()(const Updated& p, std::int64_t i, Begun scale) const {
    if (scale != scale) return;
    const float gradient = scale * p.dw[i] + p.decay * p.w[i];
    const float moved = p.first ? momentum * p.first[i] + gradient : gradient;
    const float change = nesterov ? gradient + momentum * moved : moved;
    p.w[i] -= rate[0] * change;
    if (p.first) p.first[i] = moved;
  }
};

struct AdamW {
  const float *rate, *factor;
  const RandomKey* key;
  float beta1, beta2, epsilon;
  bool operator==(const AdamW&) const = default;
  struct Begun {  // no initializers: it is in shared memory
    float scale, bias1, bias2;
  };
  __device__ Begun begin() const {  // the bias correction of the first steps, in double
    const double steps = static_cast<double>(key->step) + 1.0;
    return {factor_of(factor), static_cast<float>(1.0 - pow(double{beta1}, steps)),
            static_cast<float>(1.0 - pow(double{beta2}, steps))};
  }
  __device__ void operator()(const Updated& p, std::int64_t i, const Begun& begun) const {
    if (begun.scale != begun.scale) return;
    const float gradient = begun.scale * p.dw[i];
    const float first = beta1 * p.first[i] + (1.0f - beta1) * gradient;
    const float second = beta2 * p.second[i] + (1.0f - beta2) * gradient * gradient;
    const float decayed = p.w[i] - rate[0] * p.decay * p.w[i];
    p.w[i] = decayed - rate[0] * (first / begun.bias1) / (sqrtf(second / begun.bias2) + epsilon);
    p.first[i] = first;
    p.second[i] = second;
  }
};

struct Lion {
  const float *rate, *factor;
  float beta1, beta2;
  bool operator==(const Lion&) const = default;
  using Begun = float;
  __device__ Begun begin() const { return factor_of(factor); }
  __device__ void operator()(const Updated& p, std::int64_t i, Begun scale) const {
    if (scale != scale) return;
    const float gradient = scale * p.dw[i];
    const float mixed = beta1 * p.first[i] + (1.0f - beta1) * gradient;
    const float sign = mixed > 0.0f ? 1.0f : mixed < 0.0f ? -1.0f : mixed;  // NaN stays NaN
    p.w[i] -= rate[0] * (sign + p.decay * p.w[i]);
    p.first[i] = beta2 * p.first[i] + (1.0f - beta2) * gradient;
  }
};

Updated updated(const State& s, const Args& args) {
  return {f32_out(&s, args, 0), f32_in(&s, args, 1), f32_out(&s, args, 1),
          f32_out(&s, args, 2), s.g.count,           s.attrs.weight_decay};
}

void run_sgds(const Call* calls, int count) {
  const auto rule = [](const State& s, const Args& args) -> Sgd {
    return {f32_in(&s, args, 3), f32_in(&s, args, 4), s.attrs.momentum, s.attrs.nesterov};
  };
  run_group(calls, count, rule, updated);
}

void run_adamws(const Call* calls, int count) {
  const auto rule = [](const State& s, const Args& args) -> AdamW {
    return {f32_in(&s, args, 4), f32_in(&s, args, 5), args.key, s.attrs.beta1, s.attrs.beta2, s.attrs.epsilon};
  };
  run_group(calls, count, rule, updated);
}

void run_lions(const Call* calls, int count) {
  const auto rule = [](const State& s, const Args& args) -> Lion {
    return {f32_in(&s, args, 3), f32_in(&s, args, 4), s.attrs.beta1, s.attrs.beta2};
  };
  run_group(calls, count, rule, updated);
}

}  // namespace

bool prepare_optimizer(const Problem& problem, Plan& plan) {
  if (!new_state(problem, plan, nullptr)) return false;
  if (problem.op == Op::kSgd)
    take_many<run_sgds>(plan);
  else if (problem.op == Op::kAdamW)
    take_many<run_adamws>(plan);
  else
    take_many<run_lions>(plan);
  return true;
}

}  // namespace mlx::kernels::cuda
