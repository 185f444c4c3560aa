// Reference conversion between f32 and bf16.
#include "kernels/ref/ref.h"

namespace mlx::kernels::ref {
namespace {

void cast(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const Range range = elements_of(&s, phase, slice, s.g.count);
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    if (s.g.x_type == DType::kF32)
      static_cast<BF16*>(args.outputs[0])[i] = narrow(reals_in<float>(args, 0)[i]);
    else
      static_cast<float*>(args.outputs[0])[i] = widen(reals_in<BF16>(args, 0)[i]);
  }
}

}  // namespace

bool prepare_cast(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, cast, Takes::kBF16);
  if (!s) return false;
  cut(s, plan, 0, (s->g.count + kBlock - 1) / kBlock, s->g.count * 6);
  return true;
}

}  // namespace mlx::kernels::ref
