// Reference conversion between f32 and 8-bit integers at one scale, zero point 0.
#include "kernels/ref/ref.h"

namespace mlx::kernels::ref {
namespace {

void quantize(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const Range range = elements_of(&s, phase, slice, s.g.count);
  const float* x = f32_in(&s, args, 0);
  for (std::int64_t i = range.begin; i < range.end; ++i)
    store_quantized(args.outputs[0], s.g.y_type, i, double{x[i]} / s.attrs.scale_y);
}

void dequantize(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const Range range = elements_of(&s, phase, slice, s.g.count);
  float* y = f32_out(&s, args, 0);
  for (std::int64_t i = range.begin; i < range.end; ++i)
    y[i] = static_cast<float>(load_quantized(args.inputs[0], s.g.x_type, i)) * s.attrs.scale_x;
}

}  // namespace

bool prepare_quantize(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, problem.op == Op::kQuantize ? quantize : dequantize);
  if (!s) return false;
  cut(s, plan, 0, (s->g.count + kBlock - 1) / kBlock, s->g.count * 5);
  return true;
}

}  // namespace mlx::kernels::ref
