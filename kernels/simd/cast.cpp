// Conversion between f32 and bf16.
#include "kernels/simd/lanes.h"

namespace mlx::kernels::MLX_ISA {
namespace {

template <typename From, typename To>
void cast(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const auto* x = static_cast<const From*>(args.inputs[0]);
  auto* y = static_cast<To*>(args.outputs[0]);
  const Range range = elements_of(s, phase, slice, s->g.count);
  by_vectors(range.begin, range.end, [&](std::int64_t i, auto mask) { store(y + i, load(x + i, mask), mask); });
}

}  // namespace

bool prepare_cast(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, cast<float, BF16>, Takes::kBF16);
  if (!s) return false;
  if (s->g.x_type == DType::kBF16) plan.run = cast<BF16, float>;
  cut(s, plan, 0, (s->g.count + kBlock - 1) / kBlock, s->g.count * 6);
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
