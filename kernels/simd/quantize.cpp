// Conversion between f32 and 8-bit integers at one scale: nearest even, saturating, NaN to 0.
#include "kernels/simd/lanes.h"

namespace mlx::kernels::MLX_ISA {
namespace {

template <bool Signed>
void quantize(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const float* x = f32_in(s, args, 0);
  auto* y = static_cast<std::int8_t*>(args.outputs[0]);
  const Floats scale = broadcast(s->attrs.scale_y);
  const Floats low = broadcast(Signed ? -128.0f : 0.0f), high = broadcast(Signed ? 127.0f : 255.0f);
  const Range range = elements_of(s, phase, slice, s->g.count);
  by_vectors(range.begin, range.end, [&](std::int64_t i, auto mask) {
    const Floats value = load(x + i, mask) / scale;
    const Mask number = ordered(value);
    const Floats inside = min(high, max(low, value));
    store_narrow(y + i, keep(number, to_integers(inside)), range.end - i);
  });
}

template <bool Signed>
void dequantize(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const auto* x = static_cast<const std::int8_t*>(args.inputs[0]);
  float* y = f32_out(s, args, 0);
  const Floats scale = broadcast(s->attrs.scale_x);
  const Range range = elements_of(s, phase, slice, s->g.count);
  by_vectors(range.begin, range.end, [&](std::int64_t i, auto mask) {
    store(y + i, to_floats(load_narrow<Signed>(x + i, range.end - i)) * scale, mask);
  });
}

}  // namespace

bool prepare_quantize(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, nullptr);
  if (!s) return false;
  if (problem.op == Op::kQuantize)
    plan.run = s->g.y_type == DType::kS8 ? quantize<true> : quantize<false>;
  else
    plan.run = s->g.x_type == DType::kS8 ? dequantize<true> : dequantize<false>;
  cut(s, plan, 0, (s->g.count + kBlock - 1) / kBlock, s->g.count * 5);
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
