// Reference max pooling and global average pooling with their gradients (op_list.h, kMaxPool…).
#include "kernels/ref/ref.h"

namespace mlx::kernels::ref {
namespace {

using kernels::widen;
std::int32_t widen(std::int32_t x) {
  return x;
}
void store(void* y, DType dtype, std::int64_t i, float value) {
  store_real(y, dtype, i, value);
}
void store(void* y, DType dtype, std::int64_t i, std::int32_t value) {
  store_quantized(y, dtype, i, value);
}

// The first largest element wins; NaN wins over numbers. A window entirely in the padding gives 0 and index -1.
template <typename T>
void max_pool(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const Geometry& g = s.g;
  const auto* x = static_cast<const T*>(args.inputs[0]);
  std::int32_t* index = s32_out(&s, args, 1);
  const Range images = range_of(&s, phase, slice);
  for (std::int64_t row = images.begin * g.oh; row < images.end * g.oh; ++row)
    for (std::int64_t ow = 0; ow < g.ow; ++ow)
      for (std::int64_t c = 0; c < g.c; ++c) {
        auto best = widen(T{});
        std::int64_t where = -1;
        const std::int64_t n = row / g.oh, top = row % g.oh * g.sh - g.pt, left = ow * g.sw - g.pl;
        for (std::int64_t ih = top; ih < top + g.kh; ++ih)
          for (std::int64_t iw = left; iw < left + g.kw; ++iw) {
            if (ih < 0 || ih >= g.h || iw < 0 || iw >= g.w) continue;
            const auto value = widen(x[((n * g.h + ih) * g.w + iw) * g.c + c]);
            if (where >= 0 && !(value > best) && value == value) continue;
            best = value;
            where = ih * g.w + iw;
          }
        const std::int64_t out = (row * g.ow + ow) * g.c + c;
        store(args.outputs[0], s.g.y_type, out, best);
        if (index) index[out] = static_cast<std::int32_t>(where);
      }
}

// dx at one row and column of an image: the sum over the windows that chose this element.
void max_pool_backward(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const Geometry& g = s.g;
  const std::int32_t* index = s32_in(&s, args, 1);
  const Range images = range_of(&s, phase, slice);
  const auto covers = [](std::int64_t from, std::int64_t size, std::int64_t i) { return i >= from && i < from + size; };
  for (std::int64_t n = images.begin; n < images.end; ++n)
    for (std::int64_t at = 0; at < g.h * g.w; ++at)
      for (std::int64_t c = 0; c < g.c; ++c) {
        double sum = 0.0;
        for (std::int64_t oh = 0; oh < g.oh; ++oh) {
          if (!covers(oh * g.sh - g.pt, g.kh, at / g.w)) continue;
          for (std::int64_t ow = 0; ow < g.ow; ++ow) {
            const std::int64_t out = ((n * g.oh + oh) * g.ow + ow) * g.c + c;
            if (index[out] == at) sum += double{load_real(args.inputs[0], g.x_type, out)};
          }
        }
        store_real(args.outputs[0], g.y_type, (n * g.h * g.w + at) * g.c + c, sum);
      }
}

void avg_pool(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const Geometry& g = s.g;
  float* y = f32_out(&s, args, 0);
  const Range images = range_of(&s, phase, slice);
  for (std::int64_t n = images.begin; n < images.end; ++n)
    for (std::int64_t c = 0; c < g.c; ++c) {
      double sum = 0.0;
      for (std::int64_t i = 0; i < g.h * g.w; ++i) {
        const std::int64_t at = (n * g.h * g.w + i) * g.c + c;
        sum += g.quantized ? s.attrs.scale_x * static_cast<double>(load_quantized(args.inputs[0], g.x_type, at))
                           : double{f32_in(&s, args, 0)[at]};
      }
      y[n * g.c + c] = static_cast<float>(sum / static_cast<double>(g.h * g.w));
    }
}

void avg_pool_backward(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const Geometry& g = s.g;
  const float* dy = f32_in(&s, args, 0);
  float* dx = f32_out(&s, args, 0);
  const Range images = range_of(&s, phase, slice);
  for (std::int64_t n = images.begin; n < images.end; ++n)
    for (std::int64_t i = 0; i < g.h * g.w; ++i)
      for (std::int64_t c = 0; c < g.c; ++c)
        dx[(n * g.h * g.w + i) * g.c + c] = static_cast<float>(dy[n * g.c + c] / static_cast<double>(g.h * g.w));
}

}  // namespace

bool prepare_pool(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, nullptr, Takes::kHalf);
  if (!s) return false;
  plan.run = by_type(s->g.x_type, [](auto as) -> Run { return max_pool<decltype(as)>; });
  if (s->g.x_type == DType::kU8) plan.run = max_pool<std::uint8_t>;
  if (s->g.x_type == DType::kS8) plan.run = max_pool<std::int8_t>;
  if (problem.op == Op::kMaxPoolBackward) plan.run = max_pool_backward;
  if (problem.op == Op::kAvgPool) plan.run = avg_pool;
  if (problem.op == Op::kAvgPoolBackward) plan.run = avg_pool_backward;
  cut(s, plan, 0, s->g.n, s->g.n * s->g.h * s->g.w * s->g.c * 4);
  return true;
}

}  // namespace mlx::kernels::ref
