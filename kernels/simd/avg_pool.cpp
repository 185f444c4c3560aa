// Global average pooling with channels in the lanes, for f32 and 8-bit integers; and its gradient.
#include "kernels/simd/lanes.h"

namespace mlx::kernels::MLX_ISA {
namespace {

void forward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Geometry& g = s->g;
  const std::int64_t pixels = g.h * g.w;
  const Range images = range_of(s, phase, slice);
  for (std::int64_t n = images.begin; n < images.end; ++n)
    by_vectors(0, g.c, [&](std::int64_t c, auto mask) {
      const float* x = f32_in(s, args, 0) + n * pixels * g.c + c;
      Floats sum = zeros();
      for (std::int64_t i = 0; i < pixels; ++i) sum = sum + load(x + i * g.c, mask);
      const Floats count = broadcast(static_cast<float>(pixels));
      store(f32_out(s, args, 0) + n * g.c + c, sum / count, mask);
    });
}

template <bool Signed>
void forward_bytes(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Geometry& g = s->g;
  const std::int64_t pixels = g.h * g.w;
  const Floats scale = broadcast(s->attrs.scale_x / static_cast<float>(pixels));
  const Range images = range_of(s, phase, slice);
  for (std::int64_t n = images.begin; n < images.end; ++n)
    by_vectors(0, g.c, [&](std::int64_t c, auto mask) {
      const auto* x = static_cast<const std::uint8_t*>(args.inputs[0]) + n * pixels * g.c + c;
      Ints sum = integers(0);
      for (std::int64_t i = 0; i < pixels; ++i) sum = sum + load_narrow<Signed>(x + i * g.c, g.c - c);
      store(f32_out(s, args, 0) + n * g.c + c, to_floats(sum) * scale, mask);
    });
}

void backward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Geometry& g = s->g;
  const std::int64_t pixels = g.h * g.w;
  const Floats count = broadcast(static_cast<float>(pixels));
  const Range images = range_of(s, phase, slice);
  for (std::int64_t n = images.begin; n < images.end; ++n)
    by_vectors(0, g.c, [&](std::int64_t c, auto mask) {
      const Floats share = load(f32_in(s, args, 0) + n * g.c + c, mask) / count;
      float* dx = f32_out(s, args, 0) + n * pixels * g.c + c;
      for (std::int64_t i = 0; i < pixels; ++i) store(dx + i * g.c, share, mask);
    });
}

}  // namespace

bool prepare_avg_pool(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, problem.op == Op::kAvgPool ? forward : backward);
  if (!s) return false;
  if (s->g.quantized) {
    if (s->g.h * s->g.w > (1 << 23)) return false;  // the s32 sum of bytes must not overflow
    plan.run = s->g.x_type == DType::kU8 ? forward_bytes<false> : forward_bytes<true>;
  }
  cut(s, plan, 0, s->g.n, s->g.n * s->g.h * s->g.w * s->g.c * 4);
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
