// Reference conversion between f32 and the half-precision types.
#include "kernels/ref/ref.h"

namespace mlx::kernels::ref {
namespace {

void cast(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const Range range = elements_of(&s, phase, slice, s.g.count);
  for (std::int64_t i = range.begin; i < range.end; ++i)
    store_real(args.outputs[0], s.g.y_type, i, load_real(args.inputs[0], s.g.x_type, i));
}

}  // namespace

bool prepare_cast(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, cast, Takes::kHalf);
  if (!s) return false;
  cut(s, plan, 0, (s->g.count + kBlock - 1) / kBlock, s->g.count * 6);
  return true;
}

}  // namespace mlx::kernels::ref
