// Reference dropout: an element is kept, scaled by 1 / (1 - rate), if its Philox number is at least the rate. With
// whole_example the elements of an example share one number, that of the example's index. Backward draws the same
// numbers again.
#include "kernels/philox.h"
#include "kernels/ref/ref.h"

namespace mlx::kernels::ref {
namespace {

void dropout(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const float* x = f32_in(&s, args, 0);
  float* y = f32_out(&s, args, 0);
  const float scale = 1.0f / (1.0f - s.attrs.rate);
  const std::int64_t shared = s.attrs.whole_example && s.g.n > 0 ? s.g.count / s.g.n : 1;  // elements of one number
  const Range range = elements_of(&s, phase, slice, s.g.count);
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    const float drawn =
        to_unit(random_u32(args.seed, s.attrs.stream, args.step, static_cast<std::uint64_t>(i / shared)));
    y[i] = drawn >= s.attrs.rate ? x[i] * scale : 0.0f;
  }
}

}  // namespace

bool prepare_dropout(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, dropout);
  if (!s) return false;
  cut(s, plan, 0, (s->g.count + kBlock - 1) / kBlock, s->g.count * 8);
  return true;
}

}  // namespace mlx::kernels::ref
